import { invalid } from '../base/errors.js'
import { networkOf } from '../http/core/headers.js'
import { json, publicBody } from '../http/core/route.js'
import { telemetryEvents, type TelemetryOverview, type TelemetryReport } from '../model/telemetry.js'
import { integer, line, oneOf, readFields, reads, type Read } from '../base/fields.js'
import { queryLimit } from './query.js'
import type { Handler } from './route.js'

/** Dependencies of the handlers of the telemetry collector. */
export interface TelemetryNeeds {
  collector: { add(report: TelemetryReport): Promise<void>; overview(days: number): TelemetryOverview }
  maxDays: number
  /** Rate limits by network, because both routes are public. `take` refuses with 429. */
  reports: { take(key: string): void }
  overviews: { take(key: string): void }
}

/** Limits of a report's body: 1 KiB. */
export const reportBody = { ...publicBody, maxBytes: 1024 }
const defaultDays = 30

/** Handlers of the telemetry collector: accepts reports and returns counts (§4.12). */
export function telemetryHandlers({ collector, maxDays, reports, overviews }: TelemetryNeeds) {
  return {
    report: async request => {
      reports.take(networkOf(request.client.witnessed))
      const report = readFields(await request.json(), reportFields)
      await collector.add(report)
      return json({ success: true })
    },

    overview: ({ client, query }) => {
      overviews.take(networkOf(client.witnessed))
      return json(collector.overview(queryLimit(query, 'days', { fallback: defaultDays, max: maxDays })))
    }
  } satisfies Record<string, Handler>
}

/** The end of the year 9999. */
const maxInstantMs = 253_402_300_799_999

const short = line({ min: 1, max: 64 })

/** Reads a word. The counts are public, so reports must not contain sentences or markup. */
const word: Read<string> = reads(short.schema, 'linux', (value, field) => {
  const given = short(value, field)
  if (!/^[\w.+-]+$/.test(given))
    throw invalid(field, `"${field}" may contain only letters, digits, ".", "_", "+" and "-"`)
  return given
})

const instantSchema = { anyOf: [short.schema, { type: 'integer', minimum: 0, maximum: maxInstantMs }] }

/** Reads a time as a text, or as milliseconds since 1970. */
const instant: Read<string> = reads(instantSchema, '2030-01-02T03:04:05Z', (value, field) => {
  if (typeof value === 'number') return new Date(integer(0, maxInstantMs)(value, field)).toISOString()
  const given = short(value, field)
  if (Number.isNaN(Date.parse(given)))
    throw invalid(field, `"${field}" is "${given}": expected a time like "2030-01-02T03:04:05Z"`)
  return given
})

/** Fields of `POST /api/public/telemetry/report`. */
export const reportFields = {
  /** The event to count. */
  event: oneOf(telemetryEvents),
  /** Time of the event. */
  ts: instant,
  /** Version of the program. */
  svcVersion: word,
  /** Random id of the installation. */
  instanceId: word,
  /** Operating system. */
  os: word,
  /** Processor architecture. */
  arch: word
}
