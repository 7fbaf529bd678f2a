import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { eventsOf } from '../support/client.js'
import { startServer } from '../support/server.js'
import { until } from '../support/until.js'
import { zipOf } from '../support/zip.js'

t.test('confirm and revert', async t => {
  const { client, as, sites, createProject } = await startServer(t)
  const shop = await createProject('shop')
  const stranger = await createProject('stranger')
  const push = async (text: string, confirmSeconds: string) =>
    as(shop.token).upload([
      ['projectId', shop.id],
      ['confirmSeconds', confirmSeconds],
      ['file', { filename: 'site.zip', bytes: await zipOf({ 'index.html': text }) }]
    ])
  const page = (): string => readFileSync(join(sites, 'shop/index.html'), 'utf8')
  const waiting = () =>
    until(async () => {
      const [row] = (await client.get('/api/logs?limit=1')).body as Array<{ id: string; heldFor: string | null }>
      return row?.heldFor === 'confirm' && row.id
    })

  t.test('confirms with the token of the project, and the stream says until when', async t => {
    const pushed = push('one', '60')
    const id = await waiting()
    t.match(await as(stranger.token).post(`/api/deployments/${id}/confirm`), {
      status: 403,
      body: { code: 'other_project' }
    })
    await until(async () => {
      const { status, body } = await as(shop.token).post(`/api/deployments/${id}/confirm`)
      if (status === 200) t.match(body, { success: true, deployment: { id, status: 'success', confirmSeconds: 60 } })
      return status === 200
    })
    const events = eventsOf(await pushed)
    t.match(
      events.find(({ event }) => event === 'confirm'),
      { deployId: id, until: /Z$/ }
    )
    t.match(events.at(-1), { event: 'status', status: 'success' })
    t.equal(page(), 'one')
    for (const verb of ['confirm', 'revert']) {
      t.match(await client.post(`/api/deployments/${id}/${verb}`), { status: 409, body: { code: 'not_waiting' } })
      t.equal((await client.post(`/api/deployments/dep_unknown/${verb}`)).status, 404)
    }
  })

  t.test('reverts', async t => {
    const pushed = push('two', '60')
    const id = await waiting()
    t.equal(page(), 'two')
    const { status, body } = await client.post(`/api/deployments/${id}/revert`)
    t.equal(status, 200)
    t.match(body, { success: true, deployment: { id, status: 'failed', revertReason: 'operator', revertedAt: /Z$/ } })
    t.match(eventsOf(await pushed).at(-1), { event: 'status', status: 'failed' })
    t.equal(page(), 'one')
    t.match(await client.post(`/api/deployments/${id}/confirm`), { status: 409, body: { code: 'too_late' } })
  })

  t.test('refuses a time that is not usable', async t => {
    for (const seconds of ['9', '86401', '90s', '-1', '1.5', '1e2']) {
      t.match(await push('three', seconds), { status: 400, body: { field: 'confirmSeconds' } }, seconds)
    }
    t.match(eventsOf(await push('three', ' ')).at(-1), { status: 'success' }, 'blank: none')
  })
})
