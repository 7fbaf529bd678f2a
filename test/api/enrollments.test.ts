import t from 'tap'
import { FakeAgent } from '../support/fake-agent.js'
import { startServer } from '../support/server.js'

t.test('a token makes one machine a node, and is listed until then without its secret', async t => {
  const { client, url } = await startServer(t)
  const created = await client.post('/api/enrollments', { name: 'web-1', labels: { zone: 'eu' }, seconds: 600 })
  t.match(created, { status: 200, body: { enrollment: { name: 'web-1', labels: { zone: 'eu' }, createdBy: 'admin' } } })
  const { token, command, enrollment } = created.body
  t.equal(command, `SVC_ENROLL_TOKEN=${token} svc agent --hub ${url}`)
  const seconds = (Date.parse(enrollment.expiresAt) - Date.parse(enrollment.createdAt)) / 1000
  t.equal(seconds, 600)

  const listed = await client.get('/api/enrollments')
  t.match(listed.body.enrollments, [{ id: enrollment.id }])
  t.notMatch(listed.text, token.split('_')[1])

  t.match(await new FakeAgent(url).enroll(token), { status: 200, json: { name: 'web-1' } })
  t.same((await client.get('/api/enrollments')).body.enrollments, [])
  t.match((await client.get('/api/nodes/web-1')).body, { node: { labels: { zone: 'eu' } } })
  t.match(await client.post('/api/enrollments', { name: 'web-1' }), { status: 409, body: { code: 'name_taken' } })
})

t.test('a token without fields is valid for an hour, and can be revoked', async t => {
  const { client, url } = await startServer(t)
  const { token, enrollment } = (await client.post('/api/enrollments')).body
  t.match(enrollment, { name: null, labels: {} })
  t.equal(Date.parse(enrollment.expiresAt) - Date.parse(enrollment.createdAt), 3_600_000)
  t.match((await client.delete(`/api/enrollments/${enrollment.id}`)).body, { success: true })
  t.match(await client.delete(`/api/enrollments/${enrollment.id}`), { status: 404 })
  t.match(await new FakeAgent(url).enroll(token), { status: 403, json: { code: 'enrollment_invalid' } })
})

t.test('wrong fields are refused by name', async t => {
  const { client } = await startServer(t)
  const wrong: Array<[object, string]> = [
    [{ name: 'two words' }, 'name'],
    [{ labels: { zone: 1 } }, 'labels.zone'],
    [{ seconds: 59 }, 'seconds'],
    [{ seconds: 7 * 86_400 + 1 }, 'seconds']
  ]
  for (const [body, field] of wrong)
    t.match(await client.post('/api/enrollments', body), { status: 400, body: { field } }, JSON.stringify(body))
})

t.test('the command names the public address and the prefix of the server', async t => {
  const behind = await startServer(t, {
    environment: { SVC_PUBLIC_URL: 'https://deploy.example.org/svc' },
    base: '/svc'
  })
  const { command } = (await behind.client.post('/api/enrollments')).body
  t.match(command, /^SVC_ENROLL_TOKEN=svcnode_\S+ svc agent --hub https:\/\/deploy\.example\.org\/svc$/)
})
