import type { Client } from '../client/client.js'
import { followRun, componentCount, listDeployments, marksOf, readDeployment, rolloutOf } from '../client/runs.js'
import { spawn } from 'node:child_process'
import { countOf, oneLine } from '../../base/text.js'
import type { Deployment } from '../../model/deployment.js'
import type { ShownProject } from '../../model/project.js'
import type { ListedRollout } from '../../model/rollout.js'
import type { TokenHolder } from '../../model/access.js'
import { inheritedEnvironment } from '../../core/proc/environment.js'
import { isProjectId, whoami } from '../client/named-project.js'
import {
  loadConfiguration,
  openNamed,
  openProject,
  projectIdOf,
  type ProjectWish,
  serverUrlOf
} from '../client/session.js'
import { type Context, defineCommand, exitCodes, type Family, number, option, toggle } from '../command.js'
import type { Host } from '../terminal/output.js'
import {
  deploymentOperand,
  deploymentOptions,
  projectDetails,
  projectOperand,
  serverOptions,
  sharedOptions
} from '../common-options.js'
import { releaseLine, countWords, paintState, stateWords } from '../fleet-view.js'
import { withMaskedToken } from '../project-options.js'
import { deploymentColumns, headline, paintStatus, projectState } from '../terminal/deployments.js'
import { withInterrupts } from '../terminal/prompt.js'

interface LogsOptions {
  deployId: string
  timestamps: boolean
  json: boolean
}

/** The commands for deployments: those of a project, the output of one, its page, and its end. */
export const commands = {
  status: defineCommand({
    operands: { projectId: projectOperand },
    options: {
      limit: number('number', 'number of deployments to show', { alias: 'n', default: 5, minimum: 1, maximum: 50 }),
      branch: option('name', 'show only deployments of this git branch'),
      commit: option('id', 'show only deployments of this git commit; at least 4 digits'),
      ...serverOptions,
      json: toggle(
        'print {project, deployments, waiting, rollout, releases, components} as JSON, with the deploy token masked'
      )
    },
    details: projectDetails('viewer'),
    examples: [
      ['status', 'show the project in this directory and its five latest deployments'],
      ['status shop --limit 20', 'show more deployments of another project'],
      ['status --branch main', 'show the deployments of a branch']
    ],
    async run({ options, operands }, context) {
      const { output } = context
      const { limit, branch, commit } = options
      const { client, projectId } = await openNamed(context, { ...options, project: operands.projectId })
      const [project, deployments, marks] = await Promise.all([
        projectOf(client, projectId),
        listDeployments(client, { projectId, limit, branch, commit }),
        marksOf(client, projectId)
      ])
      const rollout = await newestRollout(client, deployments)
      // A deploy token knows only what a push needs.
      const releases =
        'token' in project
          ? ((await client.call('GET /api/projects/:id/overview', { id: projectId })).releases ?? [])
          : []
      const isFiltered = branch !== undefined || commit !== undefined
      const good = isFiltered ? undefined : deployments.find(({ status }) => status === 'success')
      const components = good === undefined ? null : await componentCount(client, good.id)
      if (options.json)
        return output.json({
          project: 'token' in project ? withMaskedToken(project) : project,
          deployments,
          waiting: marks.waiting,
          ...(rollout !== null && { rollout }),
          ...(releases.length > 0 && { releases }),
          ...(components !== null && { components })
        })
      const { paint } = output
      const { status, words } = projectState(project, marks, Date.now())
      output.print(`${paint.bold(oneLine(project.name))} (${project.id}): ${paintStatus(paint, status, words)}`)
      const nodes = releases.reduce((sum, release) => sum + release.nodes + release.drained, 0)
      const place = nodes > 0 ? countOf(nodes, 'node') : 'deployPath' in project ? project.deployPath : null
      output.print(oneLine(place === null ? project.env : `${project.env} → ${place}`))
      for (const release of releases) output.print(releaseLine(release))
      if (components !== null) output.print(`SBOM: ${countOf(components, 'component')}`)
      if (rollout !== null) {
        const words = `${stateWords(rollout, Date.now())} (${countWords(rollout.counts)})`
        output.print(`rollout ${rollout.id}: ${paintState(paint, rollout, words)}`)
      }
      output.print('')
      if (deployments.length === 0)
        output.print(isFiltered ? 'No deployment matches.' : 'Nothing has been deployed yet.')
      else output.table(deployments, deploymentColumns(paint, Date.now()))
    }
  }),

  logs: defineCommand({
    operands: { deployId: deploymentOperand },
    options: {
      follow: toggle('follow the output until the deployment finishes; exit code 1 if it fails', { alias: 'f' }),
      timestamps: toggle('print the time of each line', { alias: 't' }),
      ...deploymentOptions,
      json: toggle('print the record as JSON; with --follow, one event per line')
    },
    details: projectDetails('viewer'),
    examples: [
      ['logs dep_abcdefghijklmnop', 'print the whole output'],
      ['logs -f dep_abcdefghijklmnop', 'follow a running deployment']
    ],
    async run({ options, operands }, context) {
      const { client } = await openProject(context, options)
      const { deployId } = operands
      if (!options.json) await noteHead(client, deployId, context.output)
      const shown = { ...options, deployId }
      return options.follow ? follow(client, shown, context) : print(client, shown, context)
    }
  }),

  open: defineCommand({
    operands: {
      id: {
        help: 'id of a deployment, or id or name of a project; default: the project in svc.config.json',
        complete: 'deployments'
      }
    },
    options: {
      browser: toggle('print the address without opening it', { default: true }),
      env: sharedOptions.env,
      server: sharedOptions.server
    },
    details:
      'Prints the address, and opens it in a browser if the output is a terminal and this machine has a display.\n' +
      'The address contains no token: the panel asks for it. The name of a project is looked up with the stored token.',
    examples: [
      ['open', 'open the page of the project'],
      ['open dep_abcdefghijklmnop --no-browser', 'print the address of a deployment']
    ],
    async run({ options, operands }, context) {
      const { env, server } = options
      const { config } = await loadConfiguration(context, { flags: { server }, env, project: 'optional' })
      const word = operands.id ?? config.projectId?.value
      const isId = word === undefined || isProjectId(word) || /^dep_\w+$/.test(word)
      const id = isId ? word : await idOfName(context, { env, server, token: undefined, project: word })
      const address = `${serverUrlOf(config, context.command).value}/${pageOf(id)}`
      context.output.print(address)
      if (!options.browser || context.host.stdout.isTTY !== true) return
      if (!(await openBrowser(address, context.env)))
        context.output.note('No browser was found. Open the address yourself.')
    }
  }),

  cancel: defineCommand({
    operands: { deployId: deploymentOperand },
    options: { ...deploymentOptions, json: sharedOptions.json },
    details: `Stops the script of the deployment and every process that it started. The deployment ends as failed.\n\n${projectDetails('deployer')}`,
    examples: [['cancel dep_abcdefghijklmnop', 'cancel a deployment that hangs']],
    async run({ options, operands }, context) {
      const { client } = await openProject(context, options)
      const answer = await client.call('POST /api/deployments/:id/cancel', { id: operands.deployId })
      context.output.result(options.json, answer, `Cancelled ${operands.deployId}`)
    }
  })
} satisfies Family

/** Returns the rollout of the newest deployment; null: the server deployed it itself. */
async function newestRollout(client: Client, [latest]: readonly Deployment[]): Promise<ListedRollout | null> {
  if (latest?.steps?.some(({ name }) => (name as string) === 'rollout') !== true) return null
  return rolloutOf(client, latest.id)
}

/** Returns the whole record for a token of the server, or for a deploy token the facts that it may know of its project. */
async function projectOf(
  client: Client,
  projectId: string
): Promise<ShownProject | NonNullable<TokenHolder['project']>> {
  const holder = await whoami(client)
  return holder?.project?.id === projectId ? holder.project : client.call('GET /api/projects/:id', { id: projectId })
}

async function print(
  client: Client,
  { deployId, timestamps, json }: LogsOptions,
  { output }: Context
): Promise<number> {
  if (json) {
    const record = await readDeployment(client, deployId)
    output.json(record)
    return exitOf(record)
  }
  let last: number | undefined
  const query = { timestamps: timestamps ? ('1' as const) : undefined }
  const answer = await client.ask('GET /api/logs/:deployId/output', { deployId, query, accept: 'text/plain' })
  for await (const bytes of answer as AsyncIterable<Buffer>) {
    await output.write(bytes)
    last = bytes.at(-1)
  }
  if (last !== undefined && last !== 10) await output.write('\n')
  return exitOf(await noteBackground(client, deployId, output))
}

/** An output that is lost was not printed: its line only says so. */
const exitOf = ({ outputLost }: Deployment): number => (outputLost === true ? exitCodes.failed : exitCodes.success)

/** Prints a headline about the deployment to standard error. Skips it if the record cannot be read. */
async function noteHead(client: Client, deployId: string, output: Context['output']): Promise<void> {
  const row = await readDeployment(client, deployId, { output: 'end' }).catch(() => null)
  if (row !== null) output.note(`${row.id}: ${headline(row)}`)
}

/** Notes a failed background script, which the status of the deployment does not reflect. Returns the record. */
async function noteBackground(client: Client, deployId: string, output: Context['output']): Promise<Deployment> {
  const record = await readDeployment(client, deployId, { output: 'end' })
  if (record.backgroundFailed) output.note(`${deployId}: the post-deploy script failed in the background`)
  return record
}

async function follow(client: Client, options: LogsOptions, { host, output }: Context): Promise<number> {
  const { deployId } = options
  return withInterrupts(host, async signal => {
    const onBroken = () => output.note('The connection was lost, reconnecting…')
    for await (const event of followRun(client, deployId, { onBroken, isFirst: true, signal })) {
      if (options.json) await output.write(`${JSON.stringify(event)}\n`)
      else if (event.event === 'log') {
        await output.write(options.timestamps && event.at !== null ? `${event.at} ${event.text}\n` : `${event.text}\n`)
      }
      if (event.event !== 'status') continue
      if (!options.json) {
        output.note(`${deployId}: ${event.status}${event.duration && ` in ${event.duration}`}`)
        await noteBackground(client, deployId, output)
      }
      return event.status === 'success' ? exitCodes.success : exitCodes.failed
    }
    return exitCodes.failed
  })
}

/** Asks the server for the id of a project. */
async function idOfName(context: Context, wish: ProjectWish): Promise<string> {
  return projectIdOf(context, (await openProject(context, wish)).config)
}

/** Returns the path of the page below the address of the server. Without an id, this is the overview. */
function pageOf(id: string | undefined): string {
  if (id === undefined) return ''
  return isProjectId(id) ? `projects/${id}` : `deployments/${id}`
}

/** The command line of a program that opens an address. */
interface Opener {
  program: string
  words: string[]
}

/** Returns the command that opens an address in the user's browser, or null if there is no browser or no display. */
export function openerFor(address: string, platform: NodeJS.Platform, env: Host['env']): Opener | null {
  if (platform === 'darwin') return { program: 'open', words: [address] }
  if (platform === 'win32') return { program: 'rundll32', words: ['url.dll,FileProtocolHandler', address] }
  const hasScreen = Boolean(env['DISPLAY'] || env['WAYLAND_DISPLAY'])
  return hasScreen ? { program: 'xdg-open', words: [address] } : null
}

/** Starts the user's browser without waiting for it. Returns whether a browser started. */
export async function openBrowser(address: string, env: Host['env']): Promise<boolean> {
  const opener = openerFor(address, process.platform, env)
  if (opener === null) return false
  const options = { env: inheritedEnvironment(env), stdio: 'ignore', detached: true } as const
  const child = spawn(opener.program, opener.words, options)
  return await new Promise(resolve => {
    child.once('error', () => resolve(false))
    child.once('spawn', () => {
      child.unref()
      resolve(true)
    })
  })
}
