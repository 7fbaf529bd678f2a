import type { Api } from '../api.js'
import { defineCommand, exitCodes, type Context } from '../command.js'
import { withInterrupts } from '../interrupts.js'
import { headline } from '../origin-words.js'
import { loadConfiguration, openProjectApi } from '../session.js'
import { projectDetails, sharedOptions } from '../common-options.js'

interface LogsOptions {
  timestamps: boolean
  json: boolean
}

export const command = defineCommand({
  operands: {
    deployId: { required: true, complete: 'deployments', help: 'the deployment, as "svc status" shows it' }
  },
  options: {
    follow: { type: 'switch', alias: 'f', help: 'follow until it ends; exit code 0 for success, 1 for failed' },
    timestamps: { type: 'switch', alias: 't', help: 'the time before each line' },
    env: sharedOptions.env,
    server: sharedOptions.server,
    project: sharedOptions.project,
    token: sharedOptions.token,
    json: { type: 'switch', help: 'print the record as JSON; with --follow one event a line' }
  },
  details: projectDetails,
  examples: [
    ['logs dep_abcdefghijklmnop', 'print the whole output'],
    ['logs -f dep_abcdefghijklmnop', 'follow a deployment that is running']
  ],
  async run({ options, operands }, context) {
    const { env, server, project, token } = options
    const { config } = await loadConfiguration(context, { flags: { server, project, token }, env, project: 'optional' })
    const api = await openProjectApi(context, config)
    if (!options.json) await noteHead(api, operands.deployId, context.output)
    return options.follow
      ? follow(api, operands.deployId, options, context)
      : print(api, operands.deployId, options, context)
  }
})

async function print(
  api: Api,
  deployId: string,
  { timestamps, json }: LogsOptions,
  { output }: Context
): Promise<number> {
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

/** Says what the output is of, beside it. If that is not known, the output itself says why. */
async function noteHead(api: Api, deployId: string, output: Context['output']): Promise<void> {
  const row = await api.deployment(deployId, { output: 'end' }).catch(() => null)
  if (row !== null) output.note(`${row.id}: ${headline(row)}`)
}

/** The output says it in its last lines, and the status never. */
async function noteBackground(api: Api, deployId: string, output: Context['output']): Promise<void> {
  const { backgroundFailed } = await api.deployment(deployId, { output: 'end' })
  if (backgroundFailed) output.note(`${deployId}: its post-deploy script failed in the background`)
}

async function follow(api: Api, deployId: string, options: LogsOptions, { host, output }: Context): Promise<number> {
  return withInterrupts(host, async signal => {
    const onBroken = () => output.note('The connection broke: trying again…')
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
