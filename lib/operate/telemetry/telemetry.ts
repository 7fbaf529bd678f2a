import type { SecureContext } from 'node:tls'
import { randomUUID } from 'node:crypto'
import { arch, platform } from 'node:os'
import { type Clock, instantOf } from '../../base/clock.js'
import { type Environment, type GlobalConfig, type Home, readConfig, writeConfig } from '../../base/config/home.js'
import type { TelemetryEvent, TelemetryReport } from '../../model/setting.js'
import { parseHttpUrl } from '../../base/text.js'

/** Whether and where reports are sent. There is no built-in address: by default nothing leaves the machine. */
export interface TelemetryState {
  isEnabled: boolean
  /** The configured address, or null. */
  endpoint: string | null
  /** Where the address comes from: `SVC_TELEMETRY_ENDPOINT` or `telemetryEndpoint`. Null without an address. */
  source: 'SVC_TELEMETRY_ENDPOINT' | 'telemetryEndpoint' | null
  /** The address that reports are sent to, or null if telemetry is off or the address is missing or invalid. */
  url: URL | null
  /** Null until the first report creates it. */
  instanceId: string | null
}

interface ReportRequest {
  event: TelemetryEvent
  home: Pick<Home, 'directory' | 'configFile'>
  environment: Environment
  version: string
  clock: Clock
  /** Returns the authorities to trust (http/outgoing/trust.ts); absent: those of Node. */
  trust?: () => SecureContext | undefined
  signal: AbortSignal
}

const limitMs = 3_000 // §8

/** Returns the state from the environment and the global configuration (decisions §9). */
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
 * Sends one report (§6.6) if an address is configured. Never rejects and logs nothing. It does not keep the process
 * alive: a process that ends aborts `signal`.
 */
export async function sendReport(request: ReportRequest): Promise<void> {
  const { event, home, environment, version, clock, trust, signal } = request
  try {
    const { url, instanceId } = telemetryState(await readConfig(home), environment)
    if (url === null) return
    const report: TelemetryReport = {
      event,
      ts: instantOf(clock),
      svcVersion: version,
      instanceId: instanceId ?? (await keepInstanceId(home)),
      os: platform(),
      arch: arch()
    }
    const { post } = await import('../../http/outgoing/post.js')
    await post(url, {
      headers: { 'user-agent': `svc/${version}` },
      body: JSON.stringify(report),
      limitMs,
      isIdle: true,
      secureContext: url.protocol === 'https:' ? trust?.() : undefined,
      signal
    })
  } catch {
    // Silent by decision: nobody should have to investigate a failed report.
  }
}

/** Stores a new instance id. If two processes do this at the same time, the first id stays. */
async function keepInstanceId(home: ReportRequest['home']): Promise<string> {
  const config = await writeConfig(home, config => void (config.telemetryInstanceId ??= randomUUID()))
  return config.telemetryInstanceId as string
}
