import { locateHome, readConfig, writeConfig, type GlobalConfig } from '../config/home.js'
import { telemetryState, type TelemetryState } from '../notify/telemetry.js'
import type { Context } from './command.js'

/** What `telemetry:*` answer with `--json`. */
export interface TelemetryAnswer {
  enabled: boolean
  endpoint: string | null
  source: TelemetryState['source']
  instanceId: string | null
  /** Whether anything leaves the machine. */
  sends: boolean
  fields: readonly string[]
}

/** All that a report says (§6.6). */
const fields = ['event', 'ts', 'svcVersion', 'instanceId', 'os', 'arch'] as const

/** Changes the global configuration, and says what holds then. */
export async function changeTelemetry(context: Context, change: (config: GlobalConfig) => void, json: boolean): Promise<void> {
  tellTelemetry(context, await writeConfig(locateHome(context.env, context.cwd), change), json)
}

/** Says what holds. */
export async function showTelemetry(context: Context, json: boolean): Promise<void> {
  tellTelemetry(context, await readConfig(locateHome(context.env, context.cwd)), json)
}

function tellTelemetry({ env, output }: Context, config: GlobalConfig, json: boolean): void {
  const state = telemetryState(config, env)
  const { isEnabled: enabled, source, instanceId, url } = state
  const endpoint = state.endpoint === null ? null : withoutPassword(state.endpoint)
  const answer: TelemetryAnswer = { enabled, endpoint, source, instanceId, sends: url !== null, fields }
  if (json) return output.json(answer)
  output.print(`Telemetry:   ${enabled ? 'on' : 'off'}`)
  output.print(`Endpoint:    ${endpoint === null ? 'none, and there is no built-in one' : `${endpoint} (${source})`}`)
  output.print(`Instance id: ${instanceId ?? 'none yet: a random one is made with the first report'}`)
  output.print(verdict(state))
}

function verdict({ isEnabled, endpoint, url }: TelemetryState): string {
  if (!isEnabled) return 'Nothing leaves this machine: telemetry is off.'
  if (endpoint === null) return 'Nothing leaves this machine: no endpoint is configured.'
  if (url === null) return 'Nothing leaves this machine: the endpoint is no http or https address.'
  return `A start of the server and of a push are reported to ${url.host}: ${fields.join(', ')}. Nothing else is.`
}

function withoutPassword(url: string): string {
  return url.replace(/\/\/[^/@]*@/, '//****@')
}
