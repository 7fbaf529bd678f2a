import { json } from '../http/core/route.js'
import type { Probe } from '../machine/probe.js'
import { row } from './route.js'
import type { ApiRoute } from './route.js'

/** A start usually takes one second; undoing a commit to a large target takes longer. */
const retryAfterSeconds = 1

/**
 * Returns the route `GET /api/health` (§4.8). It is a separate file because a starting server answers this route before
 * the other routes are loaded.
 */
export function probeRow(probe: Pick<Probe, 'report'>): ApiRoute {
  return row('GET', '/api/health', 'public', 'none', async () => {
    const report = await probe.report()
    if (report.status === 'starting') return json(report, 503, { 'retry-after': String(retryAfterSeconds) })
    return json(report, report.status === 'ok' ? 200 : 503)
  })
}
