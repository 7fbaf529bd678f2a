/** The two moments that are reported (§6.6). */
export const telemetryEvents = ['svc.serve.startup', 'svc.push.start'] as const
export type TelemetryEvent = (typeof telemetryEvents)[number]

/** All that a report says: no project, no path, no token, no result (§6.6). */
export interface TelemetryReport {
  event: TelemetryEvent
  ts: string
  svcVersion: string
  /** Random, made once per data directory. */
  instanceId: string
  os: string
  arch: string
}

export interface TelemetryCounts {
  /** Different ones. */
  instances: number
  startups: number
  pushes: number
}

/** What a collector tells anybody (decisions §9). Days are those of UTC. */
export interface TelemetryOverview {
  days: number
  totals: TelemetryCounts
  /** One for each day, the oldest first; the last one is today. */
  daily: Array<TelemetryCounts & { date: string }>
  /** Instances by the version, and by the platform, of their latest day; the most frequent first. */
  versions: Array<{ version: string; count: number }>
  platforms: Array<{ os: string; arch: string; count: number }>
}
