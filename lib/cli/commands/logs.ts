import type { Api } from '../client/api.js'
import { defineCommand, exitCodes, type Context } from '../command.js'
import { withInterrupts } from '../terminal/prompt.js'
import { headline } from '../terminal/deployments.js'
import { loadConfiguration, openProjectApi } from '../client/session.js'
import { projectDetails, sharedOptions } from '../common-options.js'

interface LogsOptions {
  deployId: string
  timestamps: boolean
  json: boolean
}

/** The command `svc logs`. */
export const command = defineCommand({
  operands: {
    deployId: { required: true, complete: 'deployments', help: 'id of the deployment; "svc status" shows it' }
  },
  options: {
    follow: {
      type: 'switch',
      alias: 'f',
      help: 'follow the output until the deployment finishes; exit code 1 if it fails'
    },
    timestamps: { type: 'switch', alias: 't', help: 'print the time of each line' },
    env: sharedOptions.env,
    server: sharedOptions.server,
    project: sharedOptions.project,
    token: sharedOptions.token,
    json: { type: 'switch', help: 'print the record as JSON; with --follow, one event per line' }
  },
  details: projectDetails,
  examples: [
    ['logs dep_abcdefghijklmnop', 'print the whole output'],
    ['logs -f dep_abcdefghijklmnop', 'follow a running deployment']
  ],
  async run({ options, operands }, context) {
    const { env, server, project, token } = options
    const { config } = await loadConfiguration(context, { flags: { server, project, token }, env, project: 'optional' })
    const api = await openProjectApi(context, config)
    const { deployId } = operands
    if (!options.json) await noteHead(api, deployId, context.output)
    const shown = { ...options, deployId }
    return options.follow ? follow(api, shown, context) : print(api, shown, context)
  }
})

async function print(api: Api, { deployId, timestamps, json }: LogsOptions, { output }: Context): Promise<number> {
  if (json) {
    output.json(await api.deployment(deployId))
    return exitCodes.success
  }
  let last: number | undefined
  for await (const bytes of await api.output(deployId, { timestamps })) {
    await output.write(bytes)
    last = bytes.at(-1)
  }
  if (last !== undefined && last !== 10) await output.write('\n')
  await noteBackground(api, deployId, output)
  return exitCodes.success
}

/** Prints a headline about the deployment to standard error. Skips it if the record cannot be read. */
async function noteHead(api: Api, deployId: string, output: Context['output']): Promise<void> {
  const row = await api.deployment(deployId, { output: 'end' }).catch(() => null)
  if (row !== null) output.note(`${row.id}: ${headline(row)}`)
}

/** Notes a failed background script, which the status of the deployment does not reflect. */
async function noteBackground(api: Api, deployId: string, output: Context['output']): Promise<void> {
  const { backgroundFailed } = await api.deployment(deployId, { output: 'end' })
  if (backgroundFailed) output.note(`${deployId}: the post-deploy script failed in the background`)
}

async function follow(api: Api, options: LogsOptions, { host, output }: Context): Promise<number> {
  const { deployId } = options
  return withInterrupts(host, async signal => {
    const onBroken = () => output.note('The connection was lost, reconnecting…')
    for await (const event of api.follow(deployId, { onBroken, signal })) {
      if (options.json) await output.write(`${JSON.stringify(event)}\n`)
      else if (event.event === 'log') {
        await output.write(options.timestamps && event.at !== null ? `${event.at} ${event.text}\n` : `${event.text}\n`)
      }
      if (event.event !== 'status') continue
      if (!options.json) {
        output.note(`${deployId}: ${event.status}${event.duration && ` in ${event.duration}`}`)
        await noteBackground(api, deployId, output)
      }
      return event.status === 'success' ? exitCodes.success : exitCodes.failed
    }
    return exitCodes.failed
  })
}
