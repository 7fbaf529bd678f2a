import { type GlobalConfig, locateHome, readConfig, writeConfig } from '../../base/config/home.js'
import { parseHttpUrl } from '../../base/text.js'
import { telemetryState, type TelemetryState } from '../../operate/telemetry/telemetry.js'
import { type Command, type Context, defineCommand, type Family, usage } from '../command.js'
import { sharedOptions } from '../common-options.js'

/** The output of the `telemetry:*` commands with `--json`. */
interface TelemetryAnswer {
  enabled: boolean
  endpoint: string | null
  source: TelemetryState['source']
  instanceId: string | null
  /** Whether reports are sent. */
  sends: boolean
  fields: readonly string[]
}

/** All fields of a report (§6.6). */
const fields = ['event', 'ts', 'svcVersion', 'instanceId', 'os', 'arch'] as const

function print({ env, output }: Context, config: GlobalConfig, json: boolean): void {
  const state = telemetryState(config, env)
  const { isEnabled: enabled, source, instanceId, url } = state
  const endpoint = state.endpoint === null ? null : withoutPassword(state.endpoint)
  const answer: TelemetryAnswer = { enabled, endpoint, source, instanceId, sends: url !== null, fields }
  if (json) return output.json(answer)
  output.print(`Telemetry:   ${enabled ? 'on' : 'off'}`)
  output.print(`Endpoint:    ${endpoint === null ? 'none (there is no built-in endpoint)' : `${endpoint} (${source})`}`)
  output.print(`Instance id: ${instanceId ?? 'none yet (the first report generates a random one)'}`)
  output.print(verdict(state))
}

function verdict({ isEnabled, endpoint, url }: TelemetryState): string {
  if (!isEnabled) return 'Nothing is sent: telemetry is off.'
  if (endpoint === null) return 'Nothing is sent: no endpoint is configured.'
  if (url === null) return 'Nothing is sent: the endpoint is not an http or https address.'
  return `Each start of the server and each push is reported to ${url.host}, with only these fields: ${fields.join(', ')}.`
}

function withoutPassword(url: string): string {
  return url.replace(/\/\/[^/@]*@/, '//****@')
}

/** Changes the global configuration and prints the new state. */
async function change(context: Context, json: boolean, apply: (config: GlobalConfig) => void): Promise<void> {
  print(context, await writeConfig(locateHome(context.env, context.cwd), apply), json)
}

function switching(isOn: boolean, texts: Pick<Command, 'details' | 'examples'>): Command {
  return defineCommand({
    options: { json: sharedOptions.json },
    ...texts,
    run: ({ options: { json } }, context) => change(context, json, config => void (config.telemetryEnabled = isOn))
  })
}

/** The commands for usage statistics. */
export const commands = {
  'telemetry:status': defineCommand({
    options: { json: sharedOptions.json },
    details: 'SVC_TELEMETRY_ENDPOINT overrides the endpoint that "svc telemetry:endpoint" stores.',
    examples: [['telemetry:status', 'show whether reports are sent, what they contain, and where they go']],
    async run({ options: { json } }, context) {
      print(context, await readConfig(locateHome(context.env, context.cwd)), json)
    }
  }),

  'telemetry:on': switching(true, {
    details: 'Usage statistics are on by default, but nothing is sent without an endpoint (svc telemetry:endpoint).',
    examples: [['telemetry:on', 'turn reports on again after telemetry:off']]
  }),

  'telemetry:off': switching(false, {
    details: 'No reports are sent after this, even if an endpoint is configured (SVC_TELEMETRY_ENDPOINT, too).',
    examples: [['telemetry:off', 'stop sending reports from this machine']]
  }),

  'telemetry:endpoint': defineCommand({
    operands: { url: { required: true, help: 'address to post reports to; "default" or "reset" removes it' } },
    options: { json: sharedOptions.json },
    details:
      'There is no built-in address, so nothing is sent by default. Every svc server can collect reports at\n' +
      '/api/public/telemetry/report, and shows them at /api/public/telemetry/overview.',
    examples: [
      ['telemetry:endpoint https://deploy.example.com/api/public/telemetry/report', 'send reports to your own server'],
      ['telemetry:endpoint default', 'remove the address']
    ],
    async run({ options, operands }, context) {
      const { url } = operands
      const isReset = url === 'default' || url === 'reset'
      if (!isReset && parseHttpUrl(url) === null)
        throw usage('url', `<url> cannot be "${url}": it must be an http or https address, or "default"`)
      await change(context, options.json, config => {
        if (isReset) delete config.telemetryEndpoint
        else config.telemetryEndpoint = url
      })
    }
  })
} satisfies Family
