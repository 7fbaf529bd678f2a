import { randomUUID } from 'node:crypto'
import { arch, platform } from 'node:os'
import type { Clock } from '../base/clock.js'
import { readConfig, writeConfig, type Environment, type GlobalConfig, type Home } from '../config/home.js'
import type { TelemetryEvent, TelemetryReport } from '../model/telemetry.js'
import { parseHttpUrl, post } from './post.js'

/** Whether reports are sent, and where to. There is no built-in address: without one nothing leaves the machine. */
export interface TelemetryState {
  isEnabled: boolean
  /** As it was configured; null: nobody has. */
  endpoint: string | null
  /** `SVC_TELEMETRY_ENDPOINT` or `telemetryEndpoint`; null without an endpoint. */
  source: 'SVC_TELEMETRY_ENDPOINT' | 'telemetryEndpoint' | null
  /** Where reports go; null: nowhere, because it is off, or there is no endpoint, or it is no address. */
  url: URL | null
  /** null: it is made with the first report. */
  instanceId: string | null
}

interface ReportRequest {
  event: TelemetryEvent
  home: Pick<Home, 'directory' | 'configFile'>
  environment: Environment
  version: string
  clock: Clock
  signal: AbortSignal
}

const limitMs = 3_000 // §8

/** What the environment and the global configuration say (decisions §9). */
export function telemetryState(config: GlobalConfig, environment: Environment): TelemetryState {
  const fromEnvironment = environment['SVC_TELEMETRY_ENDPOINT'] || null
  const endpoint = fromEnvironment ?? (config.telemetryEndpoint || null)
  const isEnabled = config.telemetryEnabled ?? true
  return {
    isEnabled,
    endpoint,
    source: endpoint === null ? null : fromEnvironment === null ? 'telemetryEndpoint' : 'SVC_TELEMETRY_ENDPOINT',
    url: isEnabled && endpoint !== null ? parseHttpUrl(endpoint) : null,
    instanceId: config.telemetryInstanceId ?? null
  }
}

/**
 * Sends one report (§6.6) where somebody has asked for it. Never rejects, says nothing, and does not keep the process
 * alive: whoever ends aborts `signal`.
 */
export async function sendReport({ event, home, environment, version, clock, signal }: ReportRequest): Promise<void> {
  try {
    const { url, instanceId } = telemetryState(await readConfig(home), environment)
    if (url === null) return
    const report: TelemetryReport = {
      event,
      ts: new Date(clock.now()).toISOString(),
      svcVersion: version,
      instanceId: instanceId ?? (await keepInstanceId(home)),
      os: platform(),
      arch: arch()
    }
    await post(url, {
      headers: { 'user-agent': `svc/${version}` },
      body: JSON.stringify(report),
      limitMs,
      isIdle: true,
      signal
    })
  } catch {
    // Silent by decision: statistics must never be what somebody has to look into.
  }
}

/** Two processes may make one at the same time: the first stays. */
async function keepInstanceId(home: ReportRequest['home']): Promise<string> {
  const config = await writeConfig(home, config => void (config.telemetryInstanceId ??= randomUUID()))
  return config.telemetryInstanceId as string
}
