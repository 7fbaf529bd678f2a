import t from 'tap'
import { probeRow } from '../../lib/api/probe.js'
import type { ApiRequest } from '../../lib/api/route.js'
import type { HealthReport } from '../../lib/model/health.js'

t.test('§4.8: health answers 200, or 503 with the same fields', async t => {
  const cases: Array<[HealthReport['status'], number]> = [
    ['ok', 200],
    ['starting', 503],
    ['unhealthy', 503]
  ]
  for (const [status, expected] of cases) {
    const report: HealthReport = { status, uptime: 1, version: 'dev' }
    const { method, path, auth, handle } = probeRow({ report: async () => report })
    t.same({ method, path, auth }, { method: 'GET', path: '/api/health', auth: 'public' })
    const headers = status === 'starting' ? { headers: { 'retry-after': '1' } } : {}
    t.same(await handle({} as ApiRequest), { kind: 'json', status: expected, body: report, ...headers })
  }
})
