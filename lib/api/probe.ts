import { json } from '../http/route.js'
import type { Probe } from '../system/probe.js'
import { row } from './route.js'
import type { ApiRoute } from './route.js'

/** Whether the service works (§4.8), in a word: the one row that a start answers before the rest of it is loaded. */
export function probeRow(probe: Pick<Probe, 'report'>): ApiRoute {
  return row('GET', '/api/health', 'public', async () => {
    const report = await probe.report()
    return json(report, report.status === 'ok' ? 200 : 503)
  })
}
