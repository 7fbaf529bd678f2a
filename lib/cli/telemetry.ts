import { type GlobalConfig, locateHome, readConfig, writeConfig } from '../config/home.js'
import { telemetryState, type TelemetryState } from '../telemetry/telemetry.js'
import type { Context } from './command.js'

/** The output of the `telemetry:*` commands with `--json`. */
export interface TelemetryAnswer {
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

/** Changes the global configuration and prints the new state. */
export async function changeTelemetry(
  context: Context,
  change: (config: GlobalConfig) => void,
  json: boolean
): Promise<void> {
  printTelemetry(context, await writeConfig(locateHome(context.env, context.cwd), change), json)
}

/** Prints the current state. */
export async function showTelemetry(context: Context, json: boolean): Promise<void> {
  printTelemetry(context, await readConfig(locateHome(context.env, context.cwd)), json)
}

function printTelemetry({ env, output }: Context, config: GlobalConfig, json: boolean): void {
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
