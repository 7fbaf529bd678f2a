import { json } from '../http/route.js'
import type { Probe } from '../system/probe.js'
import { row } from './route.js'
import type { ApiRoute } from './route.js'

/** A start takes a second; putting a large target back takes some more. */
const retryAfterSeconds = 1

/** Whether the service works (§4.8), in a word: the one row that a start answers before the rest of it is loaded. */
export function probeRow(probe: Pick<Probe, 'report'>): ApiRoute {
  return row('GET', '/api/health', 'public', async () => {
    const report = await probe.report()
    if (report.status === 'starting') return json(report, 503, { 'retry-after': String(retryAfterSeconds) })
    return json(report, report.status === 'ok' ? 200 : 503)
  })
}
