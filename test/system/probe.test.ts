import t from 'tap'
import { createProbe } from '../../lib/system/probe.js'
import { setClock } from '../support/clock.js'

t.test('a probe: whether the store takes writes, whole seconds since the start, the version', async t => {
  const clock = setClock()
  const state = { ok: true, path: '/svc.db', error: null }
  const probe = createProbe({ store: { state: () => state }, clock, version: '1.2.3', startedAtMs: clock.now() })
  clock.advance(2999)
  t.same(probe.report(), { status: 'ok', uptime: 2, version: '1.2.3' })
  state.ok = false
  t.same(probe.report(), { status: 'unhealthy', uptime: 2, version: '1.2.3' })
})
