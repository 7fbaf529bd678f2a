import t from 'tap'
import { startServer } from '../support/server.js'

t.test('GET /api/system/resources', async t => {
  const { client } = await startServer(t)
  const { status, body } = await client.get('/api/system/resources')
  t.equal(status, 200)
  t.same(Object.keys(body), ['collectedAt', 'host', 'cpu', 'memory', 'disk', 'process', 'container'])
  t.ok(body.cpu.percent >= 0 && body.cpu.percent <= 100)
})
