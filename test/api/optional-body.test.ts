import t from 'tap'
import { startServer } from '../support/server.js'

t.test('accepts a request without an optional body, but refuses a broken body', async t => {
  const { client, createProject } = await startServer(t)
  const { id } = await createProject('shop')
  await client.put(`/api/projects/${id}/lock`, { reason: 'audit' })
  const headers = { 'content-type': 'application/json' }
  t.match(await client.send('DELETE', `/api/projects/${id}/lock`, { headers, body: '{' }), { status: 400 })
  t.match(await client.send('DELETE', `/api/projects/${id}/lock`), { status: 200 })
})
