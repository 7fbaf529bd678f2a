import { json, type Reply, type Request } from '../http/core/route.js'
import type { Probe } from '../operate/machine/probe.js'
import type { ApiRoute } from './route.js'

/** A start usually takes one second, as the election of a leader; undoing a commit to a large target takes longer. */
const retryAfterSeconds = 1

/**
 * Returns the route `GET /api/health` (§4.8). It is a separate file because a starting server answers this route before
 * the other routes are loaded. A hub that is cut off is alive: it answers reads, and a restart would not help. So it answers
 * 200, unless the client asks for `check=leader`.
 */
export function probeRow(probe: Pick<Probe, 'report'>): ApiRoute {
  async function handle({ query }: Pick<Request, 'query'>): Promise<Reply> {
    // What reads the query is loaded on demand, because no other request needs it before the server has started.
    const needsLeader =
      query.has('check') && (await import('./route.js')).queryChoice(query, 'check', ['leader']) !== undefined
    const report = await probe.report()
    const { status } = report
    const passes = status === 'starting' || (status === 'cut_off' && needsLeader)
    if (passes) return json(report, 503, { 'retry-after': String(retryAfterSeconds) })
    return json(report, status === 'unhealthy' ? 503 : 200)
  }
  return { method: 'GET', path: '/api/health', auth: 'public', scope: 'none', power: 'reads', handle }
}
