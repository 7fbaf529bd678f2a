import { invalid } from '../base/refusal.js'
import { networkOf } from '../http/client-address.js'
import { json, publicBody } from '../http/route.js'
import { telemetryEvents, type TelemetryOverview, type TelemetryReport } from '../model/telemetry.js'
import { line, oneOf, queryLimit, readFields, reads, type Read } from './fields.js'
import type { Handler } from './route.js'

export interface TelemetryNeeds {
  collector: { add(report: TelemetryReport): Promise<void>; overview(days: number): TelemetryOverview }
  maxDays: number
  /** Both are open to anybody. */
  reports: { take(key: string): void }
  overviews: { take(key: string): void }
}

/** decisions §9 */
export const reportBody = { ...publicBody, maxBytes: 1024 }
const defaultDays = 30

/** The collector of a fleet's reports, and what it tells (§4.12, decisions §9). */
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

const short = line({ min: 1, max: 64 })

/** What is shown to anybody afterwards: no sentence, no markup. */
const word: Read<string> = reads(short.schema, 'linux', (value, field) => {
  const given = short(value, field)
  if (!/^[\w.+-]+$/.test(given)) throw invalid(field, `"${field}" must be of letters, digits, ".", "_", "+" and "-"`)
  return given
})

const instant: Read<string> = reads(short.schema, '2030-01-02T03:04:05Z', (value, field) => {
  const given = short(value, field)
  if (Number.isNaN(Date.parse(given))) throw invalid(field, `"${field}" is no instant like "2030-01-02T03:04:05Z"`)
  return given
})

export const reportFields = { event: oneOf(telemetryEvents), ts: instant, svcVersion: word, instanceId: word, os: word, arch: word }
