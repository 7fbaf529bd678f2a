/** The two events that are reported (§6.6). */
export const telemetryEvents = ['svc.serve.startup', 'svc.push.start'] as const
/** An event that is reported. */
export type TelemetryEvent = (typeof telemetryEvents)[number]

/** The complete report: no project, no path, no token, no result (§6.6). */
export interface TelemetryReport {
  event: TelemetryEvent
  ts: string
  svcVersion: string
  /** A random id, created once per data directory. */
  instanceId: string
  os: string
  arch: string
}

/** Counts of reports. */
export interface TelemetryCounts {
  /** The number of different instances. */
  instances: number
  startups: number
  pushes: number
}

/** The public figures of a collector (decisions §9). Days are in UTC. */
export interface TelemetryOverview {
  days: number
  totals: TelemetryCounts
  /** One entry per day, the oldest first; the last one is today. */
  daily: Array<TelemetryCounts & { date: string }>
  /** Instances by the version of their latest day, the most frequent first. */
  versions: Array<{ version: string; count: number }>
  /** Instances by the platform of their latest day, the most frequent first. */
  platforms: Array<{ os: string; arch: string; count: number }>
}
