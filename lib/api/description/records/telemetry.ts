/* Schemas of telemetry. */
import type { TelemetryCounts, TelemetryOverview } from '../../../model/telemetry.js'
import { integer, list, record, text } from '../schema.js'

const counts = { instances: integer(3), startups: integer(4), pushes: integer(12) }

/** The counts of received telemetry reports. */
export const telemetryOverview = record<TelemetryOverview>({
  days: integer(30),
  totals: record<TelemetryCounts>(counts),
  daily: list(record<TelemetryOverview['daily'][number]>({ ...counts, date: text('2030-01-02') })),
  versions: list(record<TelemetryOverview['versions'][number]>({ version: text('1.0.0'), count: integer(3) })),
  platforms: list(
    record<TelemetryOverview['platforms'][number]>({ os: text('linux'), arch: text('x64'), count: integer(3) })
  )
})
