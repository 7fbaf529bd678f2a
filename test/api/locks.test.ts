import t from 'tap'
import { adminToken, startServer } from '../support/server.js'
import { deploySays } from '../support/sentences/deploy.js'
import { matching } from '../support/sentences/matching.js'
import { zipOf } from '../support/zip.js'

t.test('a locked project refuses uploads before the file, and Retry-After says how long', async t => {
  const stage = await startServer(t)
  const shop = await stage.createProject('shop')
  const path = `/api/projects/${shop.id}/lock`
  const placed = await stage.client.put(path, { reason: ' audit ', seconds: 3600 })
  t.match(placed, { status: 200, body: { success: true, lock: { owner: 'admin', reason: 'audit', kind: 'lock' } } })

  const bytes = await zipOf({ 'a.txt': '1' })
  const refused = {
    status: 409,
    body: { code: 'locked', error: matching(deploySays.lockedBy('Project shop', 'admin')) },
    headers: { 'retry-after': /^3(600|5\d\d)$/ }
  }
  const asShop = stage.as(shop.token)
  t.match(
    await asShop.upload([
      ['projectId', shop.id],
      ['file', { filename: 'a.zip', bytes }]
    ]),
    refused
  )
  t.match(
    await asShop.upload([
      ['file', { filename: 'a.zip', bytes }],
      ['projectId', shop.id]
    ]),
    refused
  )
  t.match(await asShop.get(`/api/deploy/check?projectId=${shop.id}`), refused)
  t.match(await stage.client.put(path, { reason: 'again' }), refused)

  t.match(await asShop.delete(path), { status: 403, body: { code: 'other_owner' } })
  t.match(await stage.client.delete(path), { status: 200, body: { lock: { reason: 'audit' } } })
  t.match(await stage.client.delete(path), { status: 404 })
  t.match(await asShop.get(`/api/deploy/check?projectId=${shop.id}`), { status: 200, body: { deploymentsAhead: 0 } })
})

t.test('the end of a lock is given as seconds or as an instant, within limits', async t => {
  const stage = await startServer(t)
  const shop = await stage.createProject('shop')
  const path = `/api/projects/${shop.id}/lock`
  const after = (seconds: number): string => new Date(Date.now() + seconds * 1000).toISOString()
  const wrong: Array<[object, string]> = [
    [{}, 'reason'],
    [{ reason: ' ' }, 'reason'],
    [{ reason: 'two\nlines' }, 'reason'],
    [{ reason: 'a', seconds: 59 }, 'seconds'],
    [{ reason: 'a', seconds: 30 * 24 * 3600 + 1 }, 'seconds'],
    [{ reason: 'a', expiresAt: after(-1) }, 'expiresAt'],
    [{ reason: 'a', expiresAt: after(31 * 24 * 3600) }, 'expiresAt'],
    [{ reason: 'a', expiresAt: '2030-01-01T00:00' }, 'expiresAt'],
    [{ reason: 'a', expiresAt: 'Friday' }, 'expiresAt'],
    [{ reason: 'a', expiresAt: after(3600), seconds: 60 }, 'expiresAt']
  ]
  for (const [body, field] of wrong)
    t.match(await stage.client.put(path, body), { status: 400, body: { field } }, JSON.stringify(body))
  t.same((await stage.client.get('/api/locks')).body, [])

  const expiresAt = after(7200)
  const { body } = await stage.client.put(path, { reason: 'a', expiresAt })
  t.ok(Math.abs(Date.parse(body.lock.expiresAt) - Date.parse(expiresAt)) <= 1000)
  const renewed = await stage.client.put(path, { reason: 'b', renew: true })
  t.equal(Date.parse(renewed.body.lock.expiresAt) - Date.parse(body.lock.expiresAt) > 20 * 3600 * 1000, true)
})

t.test('a deploy token sees and changes only the locks of its project', async t => {
  const stage = await startServer(t)
  const [shop, forum] = [await stage.createProject('shop'), await stage.createProject('forum')]
  const asShop = stage.as(shop.token)
  t.match(await asShop.put(`/api/projects/${shop.id}/lock`, { reason: 'mine' }), {
    body: { lock: { owner: `project:${shop.id}` } }
  })
  t.match(await asShop.put(`/api/projects/${forum.id}/lock`, { reason: 'x' }), { status: 403 })
  t.match(await asShop.put('/api/lock', { reason: 'x' }), { status: 403 })
  await stage.client.put(`/api/projects/${forum.id}/lock`, { reason: 'secret plan' })
  t.match(await stage.client.put('/api/lock', { reason: 'move' }), { body: { lock: { projectId: null } } })

  const reasons = async (client: typeof asShop, query = ''): Promise<string[]> =>
    (await client.get(`/api/locks${query}`)).body.map(({ reason }: { reason: string }) => reason)
  t.same(await reasons(asShop), ['move', 'mine'])
  t.same(await reasons(asShop, `?projectId=${forum.id}`), ['move', 'mine'])
  t.same(await reasons(stage.client), ['move', 'mine', 'secret plan'])
  t.same(await reasons(stage.client, `?projectId=${forum.id}`), ['move', 'secret plan'])

  const takeOver = { takeOver: 'urgent' }
  const headers = { 'content-type': 'application/json' }
  const take = { headers, body: JSON.stringify(takeOver) }
  t.match(await stage.client.delete(`/api/projects/${shop.id}/lock`), { status: 403, body: { error: /takeOver/ } })
  t.match(await stage.as(adminToken).send('DELETE', `/api/projects/${shop.id}/lock`, take), { status: 200 })
  t.match(await stage.client.delete('/api/lock'), { status: 200 })
  t.same(await reasons(asShop), [])
})
