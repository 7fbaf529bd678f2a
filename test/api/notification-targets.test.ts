import t from 'tap'
import { eventsOf } from '../support/client.js'
import { startReceiver } from '../support/receiver.js'
import { startServer } from '../support/server.js'
import { zipOf } from '../support/zip.js'

const path = '/api/notification-targets'

t.test('notification targets', async t => {
  const stage = await startServer(t)
  const { client } = stage
  const receiver = await startReceiver(t)
  const audit = async (): Promise<string> => (await client.get('/api/audit?limit=500')).text
  const secretUrl = `${receiver.url}/services/a-secret-path?key=a-secret-key`

  await t.test('can be added, listed without secrets, changed and removed, and survive a restart', async t => {
    t.match((await client.get(path)).body, {
      items: [{ id: 'settings', isFromSettings: true, enabled: false }],
      domains: [{ domain: String, kind: String }]
    })
    const created = await client.post(path, { name: 'Team', url: secretUrl, secret: 'a-signing-secret' })
    t.match(created, {
      status: 200,
      body: { success: true, target: { id: /^ntf_/, kind: 'generic', hasSecret: true, address: `${receiver.url}/…` } }
    })
    const { id } = created.body.target
    t.match((await client.put(`${path}/${id}`, { kind: 'slack', events: ['deploy_failure'] })).body, {
      target: { kind: 'slack', hasSecret: false, events: ['deploy_failure'] }
    })
    await stage.restart()
    const { text, body } = await client.get(path)
    t.match(body.items, [{ id: 'settings' }, { id, name: 'Team', kind: 'slack' }])
    for (const secret of ['a-secret', 'a-signing-secret']) {
      t.notMatch(text, secret)
      t.notMatch(created.text, secret)
      t.notMatch(await audit(), secret)
    }
    t.equal((await client.delete(`${path}/${id}`)).status, 200)
    t.equal((await client.delete(`${path}/${id}`)).status, 404)
  })

  await t.test('are refused with the name of the invalid field', async t => {
    for (const [given, field] of [
      [{ name: 'a' }, 'url'],
      [{ name: '', url: secretUrl }, 'name'],
      [{ name: 'a', url: 'mailto:a@b' }, 'url'],
      [{ name: 'a', url: secretUrl, kind: 'irc' }, 'kind'],
      [{ name: 'a', url: secretUrl, events: ['deploy'] }, 'events[0]'],
      [{ name: 'a', url: secretUrl, projectIds: ['proj_none'] }, 'projectIds'],
      [{ name: 'a', url: secretUrl, enabled: 'no' }, 'enabled'],
      [{ name: 'a', url: secretUrl, projectIds: Array(1_001).fill('x') }, 'projectIds']
    ] as const) {
      const { status, body, text } = await client.post(path, given)
      t.match({ status, body }, { status: 400, body: { field } }, field)
      t.notMatch(text, 'a-secret')
    }
    t.match(await client.put(`${path}/settings`, { name: 'x' }), { status: 409, body: { code: 'settings_target' } })
  })

  await t.test('get a test message; a failure is reported without the address', async t => {
    const { id } = (await client.post(path, { name: 'Chat', kind: 'wecom', url: secretUrl, enabled: false })).body
      .target
    receiver.behave({ status: 200, body: '{"errcode":93000,"errmsg":"invalid webhook url, a-secret-key"}' })
    const failed = await client.post(`${path}/${id}/test`)
    t.match(failed.body, {
      success: false,
      statusCode: 200,
      attempts: 1,
      error: 'The test message was not delivered: answered with the error code 93000: the address is not valid'
    })
    t.notMatch(failed.text, 'a-secret')
    t.notMatch(await audit(), 'a-secret')
    receiver.behave({ status: 200, body: '{"errcode":0}' })
    t.match((await client.post(`${path}/${id}/test`)).body, { success: true, statusCode: 200, attempts: 1 })
    t.match(JSON.parse(receiver.requests.at(-1)?.text as string), {
      msgtype: 'markdown',
      markdown: { content: /test message: notifications arrive here/ }
    })
    t.equal((await client.post(`${path}/ntf_unknown/test`)).status, 404)
    t.match(await client.post(`${path}/settings/test`), { status: 400, body: { code: 'no_webhook' } })
    await client.delete(`${path}/${id}`)
  })

  await t.test('get a message about a deployment if they want it, including the target of the settings', async t => {
    receiver.behave(200)
    receiver.requests.length = 0
    const shop = await stage.createProject('shop')
    const blog = await stage.createProject('blog')
    await client.put('/api/settings', { webhook_url: `${receiver.url}/settings` })
    await client.post(path, { name: 'all', url: `${receiver.url}/all` })
    await client.post(path, { name: 'shop', kind: 'slack', url: `${receiver.url}/shop`, projectIds: [shop.id] })
    await client.post(path, { name: 'blog', url: `${receiver.url}/blog`, projectIds: [blog.id] })
    await client.post(path, { name: 'failures', url: `${receiver.url}/failures`, events: ['deploy_failure'] })
    const bytes = await zipOf({ 'index.html': 'hello' })
    eventsOf(
      await stage.as(shop.token).upload([
        ['projectId', shop.id],
        ['file', { filename: 'a.zip', bytes }]
      ])
    )
    const requests = await receiver.received(3)
    t.same(requests.map(({ path }) => path).sort(), ['/all', '/settings', '/shop'])
    await client.delete(`/api/projects/${blog.id}`)
    const { items } = (await client.get(path)).body
    const ofBlog = items.find(({ name }: { name: string }) => name === 'blog')
    t.same(ofBlog.projectIds, [blog.id], 'a target whose project was deleted does not become a target of all projects')
    t.equal((await client.put(`${path}/${ofBlog.id}`, { name: 'was blog', projectIds: [blog.id] })).status, 200)
  })
})
