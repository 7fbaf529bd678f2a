import { parse } from 'yaml'

/*
 * Reads the files of docs/ci as each system would, as far as they go: what is not understood here is an error, so that a
 * file cannot contain a line that no test has looked at.
 */

/** One shell script of a job. */
export interface Step {
  /** As the system starts it: the words of the shell and of the script. */
  words: string[]
  env: Record<string, string>
}

/** What is done in one checkout; `carries`: what the next job is given of it. */
export interface Job {
  name: string
  steps: Step[]
  carries: string[]
}

/** What the system itself knows: files of the repository, and the values of secrets. */
export interface Surroundings {
  read(path: string): string
  secret(name: string): string
}

type Node = Record<string, any>

/** Fails for keys that nobody here looks at. */
function only(node: Node, ...known: string[]): void {
  const other = Object.keys(node).filter(key => !known.includes(key))
  if (other.length > 0) throw new Error(`Not understood here: ${other.join(', ')}`)
}

/** `${{ secrets.X }}` and `${{ inputs.x }}`; every other expression is an error. */
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

/** A workflow of GitHub Actions, or of Gitea and Forgejo Actions. Without bash, as in a small image, a script runs under sh. */
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
  if (uses === undefined) return [{ words: ['sh', '-e', '-c', step['run']], env: expandedAll(step['env'] ?? {}, {}, around) }]
  // The checkout is what the job begins with, and Node is in the root.
  if (/^actions\/(checkout|setup-node)@v4$/.test(uses)) return []
  if (!uses.startsWith('./')) throw new Error(`Not understood here: ${uses}`)
  return actionSteps(uses.slice(2), expandedAll(step['with'] ?? {}, {}, around), around)
}

/** A composite action of the repository. */
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

/** The jobs of a .gitlab-ci.yml, in the order of its stages; the lines of a script run in one shell. */
export function gitlabJobs(path: string, around: Surroundings): Job[] {
  const { include = [], stages, ...jobs } = parse(around.read(path)) as Node
  const templates = (include as Node[]).reduce<Node>((all, { local }) => ({ ...all, ...parse(around.read(local)) as Node }), {})
  const found = Object.entries(jobs as Record<string, Node>).map(([name, { extends: base, ...own }]) => {
    if (base !== undefined && templates[base] === undefined) throw new Error(`${name} extends ${base}, which does not exist`)
    const job = { ...templates[base], ...own } as Node
    only(job, 'stage', 'image', 'script', 'artifacts', 'variables', 'resource_group', 'environment', 'rules')
    const steps = [{ words: ['sh', '-e', '-c', (job['script'] as string[]).join('\n')], env: { ...job['variables'], ...secretsOf(around) } }]
    return { name, stage: stages.indexOf(job['stage']) as number, steps, carries: (job['artifacts']?.['paths'] ?? []) as string[] }
  })
  return found.sort((a, b) => a.stage - b.stage)
}

/** GitLab gives every variable of the project to every job. */
const secretsOf = ({ secret }: Surroundings): Record<string, string> => ({ SVC_DEPLOY_TOKEN: secret('SVC_DEPLOY_TOKEN') })

/** The steps of a Woodpecker workflow share one work tree. */
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

/** The `sh` steps of a declarative Jenkinsfile, with the environment of the pipeline and of their stage; one shell each. */
export function jenkinsJobs(path: string, around: Surroundings): Job[] {
  const text = around.read(path).replace(/^\s*\/\/.*$/gm, '')
  const [head = '', ...stages] = text.split(/\bstage\('/)
  const steps = stages.flatMap(stage => {
    const env = { ...jenkinsEnvironment(head, around), ...jenkinsEnvironment(stage, around) }
    return [...stage.matchAll(/\bsh '([^'\n]+)'/g)].map(([, script = '']) => ({ words: ['sh', '-xe', '-c', script], env }))
  })
  if (steps.length !== text.split(/\bsh\b/).length - 1) throw new Error('The Jenkinsfile has steps that are not understood here')
  return [{ name: 'deploy', steps, carries: [] }]
}

function jenkinsEnvironment(text: string, { secret }: Surroundings): Record<string, string> {
  const [, body = ''] = /\benvironment \{ (.*?) \}\s*$/m.exec(text) ?? []
  const [, name, value = ''] = /^(\w+) = (.+)$/.exec(body) ?? []
  if (name === undefined) return {}
  const [, credential] = /^credentials\('([\w-]+)'\)$/.exec(value) ?? []
  return { [name]: credential === undefined ? value.slice(1, -1).replace('${WORKSPACE_TMP}', '/tmp/work@tmp') : secret(credential) }
}
