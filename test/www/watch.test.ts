import '../support/without-dom.js'
import t from 'tap'
import type { Deployment, DeploymentStatus } from '../../lib/model/deployment.js'
import { createEnded } from '../../www/watch.js'

const list = (...rows: Array<[id: string, status: DeploymentStatus]>): Deployment[] =>
  rows.map(([id, status]) => ({ id, status, startTime: id }) as Deployment)

t.test('reports each finished deployment once, even if it was never seen running', async t => {
  const ended = createEnded()
  const look = (...rows: Array<[id: string, status: DeploymentStatus]>): string[] =>
    ended(list(...rows)).map(({ id }) => id)
  t.same(look(['b', 'running'], ['a', 'failed']), [], 'what was over before is no news')
  t.same(look(['b', 'running'], ['a', 'failed']), [])
  t.same(look(['c', 'queued'], ['b', 'success'], ['a', 'failed']), ['b'])
  t.same(look(['d', 'failed'], ['c', 'running'], ['b', 'success']), ['d'])
  t.same(look(['d', 'failed'], ['c', 'success'], ['b', 'success']), ['c'])
  t.same(look(['d', 'success'], ['c', 'success']), [], 'a correction is no end')
  t.same(look(['c', 'success'], ['a', 'failed']), [], 'an old one that moves up is none either')
})
