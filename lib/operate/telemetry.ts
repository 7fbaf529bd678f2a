import type { SecureContext } from 'node:tls'
import { randomUUID } from 'node:crypto'
import { arch, platform } from 'node:os'
import { type Clock, instantOf, elapsedOf } from '../base/clock.js'
import { type Environment, type GlobalConfig, type Home, readConfig, writeConfig } from '../base/config/home.js'
import type { TelemetryEvent, TelemetryReport, TelemetryCounts, TelemetryOverview } from '../model/setting.js'
import { parseHttpUrl, countOf } from '../base/text.js'
import type { Store } from '../core/store/database.js'
import { insertReport, readReports, trimReports } from '../core/store/tables/server.js'
import { Refusal } from '../base/errors.js'

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
    const { post } = await import('../http/outgoing/post.js')
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

/** The reports of other servers (decisions §9). Anybody can send one, so the number of stored reports is limited. */
export type Collector = ReturnType<typeof createCollector>

/** Maximum number of days in an overview, and age of stored reports. */
export const maxOverviewDays = 365
/**
 * Maximum number of rows, one per instance and day; the oldest are removed. Anybody can request the figures, and
 * counting this many takes about 20 ms.
 */
const maxRows = 20_000
/** Number of reports between two removals of old rows. */
const trimEvery = 100
const dayMs = 24 * 60 * 60_000

/** Creates the collector. `keep` is the maximum number of rows. */
export function createCollector({ store, clock, keep = maxRows }: { store: Store; clock: Clock; keep?: number }) {
  let untilTrim = 0
  const dateOf = (daysAgo: number): string => new Date(clock.now() - daysAgo * dayMs).toISOString().slice(0, 10)

  return {
    async add(report: TelemetryReport): Promise<void> {
      await store.write(tx => {
        // The date is that of this server: a wrong clock elsewhere must not write into other days.
        insertReport(tx, dateOf(0), report)
        if (untilTrim-- > 0) return
        untilTrim = trimEvery
        trimReports(tx, { before: dateOf(maxOverviewDays), keep })
      })
    },

    /** Returns the figures of the last `days` days, including today. */
    overview(days: number): TelemetryOverview {
      const from = dateOf(days - 1)
      const { daily, ...figures } = readReports(store, from)
      const known = new Map<string, TelemetryCounts & { date: string }>(daily.map(day => [day.date, day]))
      const nothing = { instances: 0, startups: 0, pushes: 0 }
      const dates = Array.from({ length: days }, (_, i) => dateOf(days - 1 - i))
      return { days, ...figures, daily: dates.map(date => known.get(date) ?? { date, ...nothing }) }
    }
  }
}

const minuteMs = 60_000

/**
 * Creates a limit of `perKey` and `ofAll` requests per minute. Its memory is bounded by `ofAll` and cleared each
 * minute.
 */
export function createRateLimit({ clock, perKey, ofAll }: { clock: Clock; perKey: number; ofAll: number }) {
  let minute = -1
  let all = 0
  const counts = new Map<string, number>()

  return {
    /** Counts a request. Refuses: 429 `rate_limited` with the seconds until the next minute. */
    take(key: string): void {
      const nowMs = elapsedOf(clock)
      const current = Math.floor(nowMs / minuteMs)
      if (current !== minute) {
        minute = current
        all = 0
        counts.clear()
      }
      const count = counts.get(key) ?? 0
      if (count >= perKey || all >= ofAll) throw tooMany(minuteMs - (nowMs % minuteMs))
      all++
      counts.set(key, count + 1)
    }
  }
}

function tooMany(remainingMs: number): Refusal {
  const retryAfterSeconds = Math.max(1, Math.ceil(remainingMs / 1000))
  const sentence = `Too many requests in this minute. Try again in ${countOf(retryAfterSeconds, 'second')}`
  return new Refusal('too_many', 'rate_limited', sentence, { retryAfterSeconds })
}
