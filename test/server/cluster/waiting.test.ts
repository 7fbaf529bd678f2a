import t from 'tap'
import { createWaiting } from '../../../lib/server/cluster/waiting.js'
import { prepareEntrance } from '../../../lib/server/entrance.js'
import { systemClock } from '../../../lib/base/clock.js'
import { freePort } from '../../support/free-port.js'
import { serverSays } from '../../support/sentences/server.js'
import { matching } from '../../support/sentences/matching.js'
import { until } from '../../support/until.js'

t.test('a hub that waits says so to every client, and then frees the address', async t => {
  const port = await freePort()
  const told: string[] = []
  const report = { info: (line: string) => void told.push(line), warn() {} }
  const entrance = await prepareEntrance({ port }, { base: '/svc', clock: systemClock, expiry: { look() {} }, report })
  const waiting = createWaiting({ entrance, base: '/svc', report })
  const ask = (path: string) => fetch(`http://127.0.0.1:${port}${path}`, { method: 'POST' })
  await t.rejects(ask('/'), 'nothing listens before there is a reason')
  waiting.tell('etcd at 10.0.0.1 does not answer')
  for (const path of ['/', '/svc/api/health', '/svc/api/deploy/upload']) {
    const answer = await until(() => ask(path).catch(() => null))
    t.equal(answer.status, 503)
    t.match(answer.headers.get('retry-after'), /^\d+$/)
    const body: unknown = await answer.json()
    t.match(body, { code: 'not_leader', error: matching(serverSays.hubWaits) })
    t.notMatch(JSON.stringify(body), /10\.0\.0\.1/, 'only the log names addresses')
  }
  await waiting.end()
  waiting.tell('too late')
  t.strictSame(told, ['etcd at 10.0.0.1 does not answer'])
  await t.rejects(ask('/'), 'another server may listen')
})
