import t from 'tap'
import { existsSync, readFileSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { eventsOf, type FormFields, formOf } from '../support/client.js'
import { startServer } from '../support/server.js'
import { zipOf } from '../support/zip.js'
import { until } from '../support/until.js'
import { readReceipt } from '../../lib/core/proof/receipt.js'
import { readReceipts, verifyReceipts, readTrustedKey } from '../../lib/core/proof/receipt-chain.js'

t.test('deployments', async t => {
  const stage = await startServer(t)
  const { client, as, sites } = stage
  const shop = await stage.createProject('shop')
  const blog = await stage.createProject('blog')
  const archive = async (files: Record<string, string>) => ({ filename: 'a.zip', bytes: await zipOf(files) })
  const push = async (files: Record<string, string>, more: FormFields = []) =>
    eventsOf(await as(shop.token).upload([['projectId', shop.id], ['file', await archive(files)], ...more])).at(-1)
      .deployId as string
  const page = () => readFileSync(join(sites, 'shop/index.html'), 'utf8')

  const first = await push({ 'index.html': 'one', 'same.txt': 'same', 'old.txt': 'old' })
  const second = await push({ 'index.html': 'two', 'same.txt': 'same', 'new.txt': 'new' })

  t.test('a rollback deploys the archive of an earlier deployment, with a new record', async t => {
    t.equal(page(), 'two')
    const { status, body } = await client.post(`/api/deployments/${first}/rollback`)
    t.equal(status, 200)
    t.match(body, { success: true, deployId: /^dep_/, status: 'success', duration: /s$/ })
    t.equal(page(), 'one')
    const record = (await client.get(`/api/logs/${body.deployId}`)).body
    t.match(record, { triggerSource: 'rollback', rollbackOf: first, projectId: shop.id, message: null })
  })

  t.test('a rollback takes a message and can be streamed', async t => {
    const reply = await client.post(
      `/api/deployments/${second}/rollback`,
      { message: 'the second value was correct' },
      { accept: 'application/x-ndjson' }
    )
    t.match(reply.headers['content-type'], /^application\/x-ndjson/)
    const events = eventsOf(reply)
    t.match(events.at(-1), { event: 'status', status: 'success', deployId: String })
    t.equal((await client.get(`/api/logs/${events.at(-1).deployId}`)).body.message, 'the second value was correct')
    t.equal(page(), 'two')
  })

  t.test('a failed rollback reports the failure', async t => {
    await client.put(`/api/projects/${shop.id}`, { postDeployScript: 'exit 1' })
    const { status, body } = await client.post(`/api/deployments/${first}/rollback`)
    t.equal(status, 200)
    t.match(body, { success: false, status: 'failed', deployId: String, error: String })
    await client.put(`/api/projects/${shop.id}`, { postDeployScript: '' })
  })

  t.test('refuses a rollback that is impossible', async t => {
    t.equal((await client.post('/api/deployments/dep_unknown/rollback')).status, 404)
    t.equal((await client.post(`/api/deployments/${first}/rollback`, { message: 5 })).status, 400)
    t.equal((await client.post(`/api/deployments/${first}/rollback`, { message: 'x'.repeat(501) })).status, 400)
    await client.put('/api/settings', { allowed_ips: '127.0.0.1' })
    const elsewhere = await client.post(`/api/deployments/${first}/rollback`, undefined, {
      'x-forwarded-for': '192.0.2.1'
    })
    t.match(elsewhere, { status: 403, body: { code: 'address_not_allowed' } })
    await client.put('/api/settings', { allowed_ips: '' })
  })

  t.test('lists the files of a deployment and compares two deployments', async t => {
    const { body } = await client.get(`/api/deployments/${first}/files`)
    t.same(body.map(({ path }: { path: string }) => path).sort(), ['index.html', 'old.txt', 'same.txt'])
    t.match(body[0], { path: String, size: Number, mode: Number, sha256: /^[0-9a-f]{64}$/ })
    const changes = (await client.get(`/api/deployments/${second}/changes?against=${first}`)).body
    t.same(changes, { added: ['new.txt'], changed: ['index.html'], removed: ['old.txt'] })
    t.match(await client.get(`/api/deployments/${second}/changes`), { status: 400, body: { field: 'against' } })
    t.equal((await client.get(`/api/deployments/${second}/changes?against=dep_unknown`)).status, 404)
    t.equal((await client.get('/api/deployments/dep_unknown/files')).status, 404)
    t.equal((await as(shop.token).get(`/api/deployments/${first}/files`)).status, 200)
    t.equal((await as(blog.token).get(`/api/deployments/${first}/files`)).status, 403)
    t.equal((await as(blog.token).get(`/api/deployments/${first}/changes?against=${second}`)).status, 403)
  })

  t.test('refuses a list of files that a power failure cut off', async t => {
    const path = join(stage.home.deployments, `${first}.manifest`)
    const whole = await readFile(path)
    for (const torn of [whole.subarray(0, 0), whole.subarray(0, whole.length - 9), Buffer.alloc(whole.length)]) {
      await writeFile(path, torn)
      for (const at of [`${first}/files`, `${first}/changes?against=${second}`, `${second}/changes?against=${first}`]) {
        t.match(
          await client.get(`/api/deployments/${at}`),
          { status: 409, body: { code: 'torn_manifest' } },
          `${torn.length}: ${at}`
        )
      }
    }
    await writeFile(path, whole)
  })

  t.test('corrects the status of a finished deployment', async t => {
    const { status, body } = await client.patch(`/api/deployments/${second}/status`, { status: 'failed' })
    t.equal(status, 200)
    t.match(body, { success: true, deployment: { id: second, status: 'failed', output: String } })
    t.match((await client.get(`/api/logs/${second}`)).body, { status: 'failed' })
    for (const wrong of [{}, { status: 'running' }, { status: 1 }]) {
      t.match(await client.patch(`/api/deployments/${second}/status`, wrong), {
        status: 400,
        body: { field: 'status' }
      })
    }
    t.equal((await client.patch('/api/deployments/dep_unknown/status', { status: 'failed' })).status, 404)
  })

  t.test('cancel stops a running and a queued deployment', async t => {
    const slow = async () => {
      const form = formOf([
        ['projectId', shop.id],
        ['file', await archive({ 'slow.txt': '' })],
        ['postDeploy', 'sleep 60; touch never.txt']
      ])
      return as(shop.token).send('POST', '/api/deploy/upload', {
        headers: { 'content-type': form.contentType },
        body: form.body
      })
    }
    const pushes = [slow(), slow()]
    // One list with both states: with two requests in succession, a deployment may be in both lists.
    const [queued, running] = await until(async () => {
      const going = new Map(
        ((await client.get('/api/logs?limit=2')).body as Array<{ id: string; status: string }>).map(
          ({ id, status }) => [status, id]
        )
      )
      return going.has('queued') && going.has('running') && [going.get('queued'), going.get('running')]
    })
    t.match(await client.patch(`/api/deployments/${running}/status`, { status: 'success' }), { status: 409 })
    const stranger = await stage.createProject('stranger')
    t.match(await as(stranger.token).post(`/api/deployments/${queued}/cancel`), {
      status: 403,
      body: { code: 'other_project' }
    })
    for (const [id, client] of [
      [queued, as(shop.token)],
      [running, stage.client]
    ] as const) {
      t.match(await client.post(`/api/deployments/${id}/cancel`), {
        status: 200,
        body: { success: true, message: String, deployment: { id, status: 'failed' } }
      })
    }
    for (const reply of await Promise.all(pushes))
      t.match(eventsOf(reply).at(-1), { event: 'status', status: 'failed' })
    t.equal((await client.post(`/api/deployments/${running}/cancel`)).status, 409, 'it has finished')
    t.equal((await client.post('/api/deployments/dep_unknown/cancel')).status, 404)
    t.notOk(existsSync(join(sites, 'shop/never.txt')))
  })

  t.test('every action is in the audit log', async t => {
    const { items } = (await client.get(`/api/audit?projectId=${shop.id}&limit=500`)).body
    const actions = new Set(items.map((item: { action: string }) => item.action))
    for (const verb of ['rollback', 'mark_status', 'cancel']) {
      t.ok(
        [...actions].some(action => String(action).endsWith(verb)),
        `${verb} in ${[...actions]}`
      )
    }
  })
})

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
    t.match(await as(shop.token).post(`/api/deployments/${id}/confirm`), {
      status: 200,
      body: { success: true, deployment: { id, status: 'success', confirmSeconds: 60 } }
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

/* `GET /api/deployments/:id/receipt` and `GET /api/receipts`. */

t.test('receipts are read one by one and all together', async t => {
  const stage = await startServer(t)
  const { client } = stage
  const [shop, blog] = [await stage.createProject('shop'), await stage.createProject('blog')]
  const deployer = stage.as((await client.post('/api/tokens', { name: 'ci', role: 'deployer' })).body.token)
  const push = async (projectId: string, text: string): Promise<string> => {
    const file = { filename: 'site.zip', bytes: await zipOf({ 'a.txt': text }) }
    const events = eventsOf(
      await deployer.upload([
        ['projectId', projectId],
        ['file', file]
      ])
    )
    const { deployId } = events.at(-1) as { deployId?: string }
    if (deployId === undefined) throw new Error(JSON.stringify(events))
    return deployId
  }
  const ids = [await push(shop.id, 'one'), await push(blog.id, 'one'), await push(shop.id, 'two')]
  const [one = ''] = ids
  const reply = await client.get(`/api/deployments/${one}/receipt`)
  t.match(reply, { status: 200, headers: { 'content-disposition': `attachment; filename="${one}.receipt.json"` } })
  const { receipt } = readReceipt(reply.text)
  t.match(receipt, { project: { id: shop.id }, chain: { number: 1 }, deployment: { id: one, late: false } })
  t.ok((receipt.audit?.size ?? 0) > 0, 'it names the audit log')
  const result = await client.get(`/api/deployments/${one}/receipt?form=result`)
  t.match(JSON.parse(Buffer.from(result.body.payload, 'base64').toString()), { predicate: { properties: [] } })
  t.match(await client.get(`/api/deployments/${one}/receipt?form=other`), {
    status: 400,
    body: { code: 'invalid_field' }
  })
  t.match(await client.get('/api/deployments/dep_none/receipt'), { status: 404, body: { code: 'not_found' } })

  const all = await client.get('/api/receipts')
  const file = readReceipts(all.text, 'all')
  t.strictSame(
    file.receipts.map(({ receipt }) => receipt.deployment.id),
    ids
  )
  const { key } = (await client.get('/api/audit/checkpoint')).body
  const keys = [readTrustedKey(key)]
  t.match(verifyReceipts(file.receipts, { keys, successors: [], revoked: new Set() }), {
    faults: [],
    chains: [
      { project: 'shop', last: 2 },
      { project: 'blog', last: 1 }
    ]
  })
  const of = async (query: string, as = client): Promise<string[]> =>
    readReceipts((await as.get(`/api/receipts${query}`)).text, 'some').receipts.map(each => each.receipt.project.name)
  t.strictSame(await of(`?projectId=${blog.id}`), ['blog'])
  t.match(
    (await client.get('/api/receipts?since=2099-01-01T00:00:00Z')).text,
    /^{"svcReceipts":"1","successors":\[\]}\n$/
  )
  t.match(await client.get('/api/receipts?since=yesterday'), { status: 400 })

  const limited = (await client.post('/api/tokens', { name: 'ana', role: 'viewer', projectIds: [blog.id] })).body.token
  t.strictSame(await of('', stage.as(limited)), ['blog'])
  t.match(await stage.as(limited).get(`/api/receipts?projectId=${shop.id}`), { status: 404 })
  t.match(await stage.as(limited).get(`/api/deployments/${one}/receipt`), { status: 404 })

  await client.delete(`/api/projects/${blog.id}`)
  t.strictSame(await of(''), ['shop', 'shop'], 'receipts are removed with their project')
})
