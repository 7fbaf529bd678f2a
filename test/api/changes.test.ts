import t from 'tap'
import { startServer } from '../support/server.js'
import { signIn } from '../support/session.js'

t.test('one request returns which topics have changed, or 304 if none has', async t => {
  const stage = await startServer(t)
  const ask = () => stage.client.get('/api/changes')
  let before = await ask()
  t.equal((await stage.client.get('/api/changes', { 'if-none-match': before.headers.etag as string })).status, 304)

  const changed = async (work: () => Promise<unknown>): Promise<string[]> => {
    await work()
    const after = await ask()
    const topics = Object.keys(after.body).filter(topic => after.body[topic] !== before.body[topic])
    const status = (await stage.client.get('/api/changes', { 'if-none-match': before.headers.etag as string })).status
    t.equal(status, topics.length === 0 ? 304 : 200)
    before = after
    return topics.sort()
  }
  t.same(await changed(async () => {}), [])
  t.same(await changed(() => stage.createProject('shop')), ['audit', 'deployments', 'locks', 'logSources', 'projects'])
  t.same(await changed(() => stage.client.put('/api/lock', { reason: 'move' })), ['audit', 'locks'])
  t.same(await changed(() => stage.client.put('/api/settings', { keep_archives: '7' })), ['audit', 'settings'])
  t.same(await changed(() => signIn(stage.as(null))), ['audit', 'sessions'])
})
