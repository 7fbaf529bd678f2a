import { parse } from 'yaml'

/*
 * Reads the files of docs/ci like each system. Unknown keys are an error, so a file cannot contain a line that no test
 * has seen.
 */

/** One shell script of a job. */
export interface Step {
  /** The command with which the system starts the shell. */
  words: string[]
  env: Record<string, string>
}

/** The steps in one checkout; `carries` names the files that the next job gets. */
export interface Job {
  name: string
  steps: Step[]
  carries: string[]
}

/** The input of a system: files of the repository, and values of secrets. */
export interface Surroundings {
  read(path: string): string
  secret(name: string): string
}

type Node = Record<string, any>

/** Throws if an object has other keys. */
function only(node: Node, ...known: string[]): void {
  const other = Object.keys(node).filter(key => !known.includes(key))
  if (other.length > 0) throw new Error(`Not understood here: ${other.join(', ')}`)
}

/** Replaces `${{ secrets.X }}` and `${{ inputs.x }}`; every other expression is an error. */
function expanded(value: unknown, inputs: Record<string, string>, { secret }: Surroundings): string {
  return String(value).replace(/\$\{\{\s*(.*?)\s*\}\}/g, (_, expression: string) => {
    const [, kind, name = ''] = /^(secrets|inputs)\.(\w+)$/.exec(expression) ?? []
    if (kind === 'secrets') return secret(name)
    if (kind === 'inputs' && inputs[name] !== undefined) return inputs[name]
    throw new Error(`Not understood here: ${expression}`)
  })
}

const expandedAll = (env: Node, inputs: Record<string, string>, around: Surroundings): Record<string, string> =>
  Object.fromEntries(Object.entries(env).map(([name, value]) => [name, expanded(value, inputs, around)]))

/** Reads a workflow of GitHub, Gitea or Forgejo Actions. Scripts run under sh, as in an image without bash. */
export function workflowJobs(path: string, around: Surroundings): Job[] {
  const workflow = parse(around.read(path)) as Node
  only(workflow, 'name', 'on', 'permissions', 'concurrency', 'jobs')
  if (JSON.stringify(workflow['on']) !== '{"push":{"branches":["main"]}}') throw new Error('on')
  return Object.entries(workflow['jobs'] as Record<string, Node>).map(([name, job]) => {
    only(job, 'runs-on', 'container', 'steps')
    return { name, carries: [], steps: (job['steps'] as Node[]).flatMap(step => workflowSteps(step, around)) }
  })
}

function workflowSteps(step: Node, around: Surroundings): Step[] {
  only(step, 'name', 'uses', 'with', 'run', 'env')
  const uses = step['uses'] as string | undefined
  if (uses === undefined)
    return [{ words: ['sh', '-e', '-c', step['run']], env: expandedAll(step['env'] ?? {}, {}, around) }]
  // The job starts in the checkout, and the root contains Node.
  if (/^actions\/(checkout|setup-node)@v4$/.test(uses)) return []
  if (!uses.startsWith('./')) throw new Error(`Not understood here: ${uses}`)
  return actionSteps(uses.slice(2), expandedAll(step['with'] ?? {}, {}, around), around)
}

/** Reads a composite action of the repository. */
function actionSteps(directory: string, given: Record<string, string>, around: Surroundings): Step[] {
  const action = parse(around.read(`${directory}/action.yml`)) as Node
  only(action, 'name', 'description', 'inputs', 'runs')
  only(given, ...Object.keys(action['inputs']))
  const inputs = { ...given }
  for (const [name, input] of Object.entries(action['inputs'] as Record<string, Node>)) {
    only(input, 'description', 'required', 'default')
    if (input['required'] === true && given[name] === undefined) throw new Error(`The action needs ${name}`)
    inputs[name] ??= input['default'] as string
  }
  if (action['runs']['using'] !== 'composite') throw new Error('using')
  return (action['runs']['steps'] as Node[]).map(step => {
    only(step, 'shell', 'env', 'run')
    return {
      words: [step['shell'], '-e', '-c', step['run']],
      env: { ...expandedAll(step['env'], inputs, around), GITHUB_ACTION_PATH: `/tmp/work/${directory}` }
    }
  })
}

/** Reads the jobs of a .gitlab-ci.yml in the order of its stages. The lines of a script run in one shell. */
export function gitlabJobs(path: string, around: Surroundings): Job[] {
  const { include = [], stages, ...jobs } = parse(around.read(path)) as Node
  const templates: Node = Object.assign(
    {},
    ...(include as Node[]).map(({ local }) => parse(around.read(local)) as Node)
  )
  const found = Object.entries(jobs as Record<string, Node>).map(([name, { extends: base, ...own }]) => {
    if (base !== undefined && templates[base] === undefined)
      throw new Error(`${name} extends ${base}, which does not exist`)
    const job = { ...templates[base], ...own } as Node
    only(job, 'stage', 'image', 'script', 'artifacts', 'variables', 'resource_group', 'environment', 'rules')
    const steps = [
      {
        words: ['sh', '-e', '-c', (job['script'] as string[]).join('\n')],
        env: { ...job['variables'], ...secretsOf(around) }
      }
    ]
    return {
      name,
      stage: stages.indexOf(job['stage']) as number,
      steps,
      carries: (job['artifacts']?.['paths'] ?? []) as string[]
    }
  })
  return found.sort((a, b) => a.stage - b.stage)
}

/** GitLab passes every variable of the project to every job. */
const secretsOf = ({ secret }: Surroundings): Record<string, string> => ({
  SVC_DEPLOY_TOKEN: secret('SVC_DEPLOY_TOKEN')
})

/** Reads a Woodpecker workflow. Its steps share one work tree. */
export function woodpeckerJobs(path: string, around: Surroundings): Job[] {
  const workflow = parse(around.read(path)) as Node
  only(workflow, 'when', 'steps')
  const steps = (workflow['steps'] as Node[]).map(step => {
    only(step, 'name', 'image', 'environment', 'commands')
    const env = Object.entries((step['environment'] ?? {}) as Record<string, Node>).map(([name, value]) => {
      only(value, 'from_secret')
      return [name, around.secret(value['from_secret'])] as const
    })
    return { words: ['sh', '-e', '-c', (step['commands'] as string[]).join('\n')], env: Object.fromEntries(env) }
  })
  return [{ name: 'deploy', steps, carries: [] }]
}

/**
 * Reads the `sh` steps of a declarative Jenkinsfile, with the environment of pipeline and stage. Each runs in its own
 * shell.
 */
export function jenkinsJobs(path: string, around: Surroundings): Job[] {
  const text = around.read(path).replace(/^\s*\/\/.*$/gm, '')
  const [head = '', ...stages] = text.split(/\bstage\('/)
  const steps = stages.flatMap(stage => {
    const env = { ...jenkinsEnvironment(head, around), ...jenkinsEnvironment(stage, around) }
    return [...stage.matchAll(/\bsh '([^'\n]+)'/g)].map(([, script = '']) => ({
      words: ['sh', '-xe', '-c', script],
      env
    }))
  })
  if (steps.length !== text.split(/\bsh\b/).length - 1)
    throw new Error('The Jenkinsfile has steps that are not understood here')
  return [{ name: 'deploy', steps, carries: [] }]
}

function jenkinsEnvironment(text: string, { secret }: Surroundings): Record<string, string> {
  const [, body = ''] = /\benvironment \{ (.*?) \}\s*$/m.exec(text) ?? []
  const [, name, value = ''] = /^(\w+) = (.+)$/.exec(body) ?? []
  if (name === undefined) return {}
  const [, credential] = /^credentials\('([\w-]+)'\)$/.exec(value) ?? []
  return {
    [name]:
      credential === undefined ? value.slice(1, -1).replace('${WORKSPACE_TMP}', '/tmp/work@tmp') : secret(credential)
  }
}
