import t from 'tap'
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { freeBytes } from '../../lib/base/files.js'
import { setClock } from '../support/clock.js'
import { type Client, eventsOf, type FormFields } from '../support/client.js'
import { startServer } from '../support/server.js'
import { until } from '../support/until.js'
import { zipOf } from '../support/zip.js'

const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')
const hourMs = 3_600_000

const begin = (client: Client, projectId: string, bytes: Uint8Array) =>
  client.post('/api/uploads', { projectId, bytes: bytes.length, sha256: sha256(bytes) })

const append = (client: Client, id: string, offset: number, body: Uint8Array) =>
  client.send('PATCH', `/api/uploads/${id}`, {
    headers: { 'content-type': 'application/octet-stream', 'upload-offset': String(offset) },
    body
  })

/** Sends everything in pieces of this length. Returns the id of the upload. */
async function send(client: Client, projectId: string, bytes: Uint8Array, length = 100): Promise<string> {
  const id: string = (await begin(client, projectId, bytes)).body.uploadId
  for (let at = 0; at < bytes.length; at += length) await append(client, id, at, bytes.subarray(at, at + length))
  return id
}

const deploy = (client: Client, projectId: string, uploadId: string, more: FormFields = []) =>
  client.upload([['projectId', projectId], ['uploadId', uploadId], ...more])

t.test('uploads in pieces', async t => {
  const clock = setClock(Date.now())
  const stage = await startServer(t, { clock })
  const { client, as, sites, home } = stage
  const shop = await stage.createProject('shop')
  const forum = await stage.createProject('forum')
  const pusher = as(shop.token)
  const zip = await zipOf({ 'index.html': 'hello', 'a.css': 'a {}' })
  const left = (): string[] => readdirSync(home.tmp)
  const mint = async (name: string, fields: object = {}) =>
    (await client.post('/api/tokens', { name, role: 'deployer', ...fields })).body

  t.test('are deployed by their id, and nothing is left', async t => {
    const begun = await begin(pusher, shop.id, zip)
    t.match(begun, { status: 200, headers: { 'upload-offset': '0' }, body: { offset: 0, bytes: zip.length } })
    const { uploadId: id } = begun.body
    t.match(await append(pusher, id, 0, zip.subarray(0, 50)), { status: 200, body: { offset: 50 } })
    const head = await pusher.open('HEAD', `/api/uploads/${id}`)
    t.match([head.statusCode, head.headers['upload-offset']], [200, '50'])
    t.match(await begin(pusher, shop.id, zip), { status: 200, body: { uploadId: id, offset: 50 } }, 'the same goes on')
    const early = await deploy(pusher, shop.id, id)
    t.match(early, { status: 409, body: { code: 'upload_incomplete' } })
    await append(pusher, id, 50, zip.subarray(50))
    const events = eventsOf(await deploy(pusher, shop.id, id, [['message', 'In pieces']]))
    t.match(events.at(-1), { event: 'status', status: 'success' })
    t.equal(readFileSync(join(sites, 'shop/index.html'), 'utf8'), 'hello')
    const record = (await client.get(`/api/logs/${events.at(-1).deployId}`)).body
    t.match(record, { archiveBytes: zip.length, archiveSha256: sha256(zip), message: 'In pieces' })
    t.strictSame(left(), [])
    t.match(await deploy(pusher, shop.id, id), { status: 404, body: { code: 'upload_unknown' } })
  })

  t.test('a wrong offset is refused with the right one', async t => {
    const { uploadId: id } = (await begin(pusher, shop.id, zip)).body
    await append(pusher, id, 0, zip.subarray(0, 10))
    const refused = await append(pusher, id, 20, zip.subarray(20))
    t.match(refused, { status: 409, headers: { 'upload-offset': '10' }, body: { code: 'wrong_offset' } })
    t.match(await append(pusher, id, 10, Buffer.alloc(zip.length)), { status: 400, body: { code: 'piece_too_long' } })
    for (const headers of [{}, { 'upload-offset': '-1' }, { 'upload-offset': '1e3' }] as Array<
      Record<string, string>
    >) {
      const reply = await pusher.send('PATCH', `/api/uploads/${id}`, { headers, body: 'x' })
      t.match(reply, { status: 400, body: { code: 'invalid_field', field: 'Upload-Offset' } })
    }
    const coded = { 'upload-offset': '10', 'content-encoding': 'gzip' }
    t.match(await pusher.send('PATCH', `/api/uploads/${id}`, { headers: coded, body: 'x' }), {
      status: 415,
      body: { code: 'unsupported_type' }
    })
    t.match((await pusher.get(`/api/uploads/${id}`)).body, { offset: 10 })
    t.match(await pusher.delete(`/api/uploads/${id}`), { status: 200, body: { success: true } })
    t.equal((await pusher.get(`/api/uploads/${id}`)).status, 404)
    t.strictSame(left(), [])
  })

  t.test('a restarted server goes on', async t => {
    const { uploadId: id } = (await begin(pusher, shop.id, zip)).body
    await append(pusher, id, 0, zip.subarray(0, 70))
    await stage.restart()
    t.match(await pusher.get(`/api/uploads/${id}`), { status: 200, body: { offset: 70 } })
    await append(pusher, id, 70, zip.subarray(70))
    t.match(eventsOf(await deploy(pusher, shop.id, id)).at(-1), { status: 'success' })
  })

  t.test('belong to the token and the project', async t => {
    const { uploadId: id } = (await begin(pusher, shop.id, zip)).body
    t.match(await begin(pusher, forum.id, zip), { status: 403, body: { code: 'other_project' } })
    const others = [as(forum.token), as((await mint('other')).token)]
    for (const other of others) {
      t.match(await other.get(`/api/uploads/${id}`), { status: 404, body: { code: 'upload_unknown' } })
      t.match(await append(other, id, 0, zip), { status: 404, body: { code: 'upload_unknown' } })
      t.match(await other.delete(`/api/uploads/${id}`), { status: 404, body: { code: 'upload_unknown' } })
    }
    await append(pusher, id, 0, zip)
    t.match(await deploy(as(forum.token), forum.id, id), { status: 404, body: { code: 'upload_unknown' } })
    t.match(await client.post('/api/uploads', { projectId: shop.id, bytes: 1 }), { status: 401 }, 'the admin token')
    await pusher.delete(`/api/uploads/${id}`)
  })

  t.test('a revoked token ends its uploads', async t => {
    const { token, record } = await mint('soon revoked')
    const id = (await begin(as(token), shop.id, zip)).body.uploadId
    await client.delete(`/api/tokens/${record.id}`)
    t.match(await append(as(token), id, 0, zip), { status: 401, body: { code: 'token_revoked' } })
    t.match(await deploy(as(token), shop.id, id), { status: 401, body: { code: 'token_revoked' } })
    await begin(pusher, shop.id, Buffer.from('x'))
    t.notOk(
      left().some(name => name.startsWith(id)),
      'its files go at once'
    )
    clock.advance(25 * hourMs)
  })

  t.test('a deploy token that was replaced ends its uploads, and takes no places from the new one', async t => {
    const site = await stage.createProject('replaced')
    const replace = async () => as((await client.post(`/api/projects/${site.id}/token`)).body.token)
    const changeGlobal = async (token: string) => {
      await client.put('/api/settings', { global_deploy_token: token })
      return as(token)
    }
    for (const [old, next] of [
      [as(site.token), replace],
      [await changeGlobal('first-global-token-0123456789'), () => changeGlobal('other-global-token-0123456789')]
    ] as const) {
      const { uploadId: id } = (await begin(old, site.id, zip)).body
      await append(old, id, 0, zip)
      for (const text of ['a', 'b', 'c']) t.equal((await begin(old, site.id, Buffer.from(text))).status, 200)
      const begun = await begin(old, site.id, Buffer.from('d'))
      t.match(begun, { status: 429, body: { code: 'too_many_uploads' } })
      const fresh = await next()
      t.match(await append(old, id, 0, zip), { status: 401 })
      t.match(await fresh.get(`/api/uploads/${id}`), { status: 404, body: { code: 'upload_unknown' } })
      t.match(await deploy(fresh, site.id, id), { status: 404, body: { code: 'upload_unknown' } })
      const own = await begin(fresh, site.id, zip)
      t.match(own, { status: 200, body: { offset: 0 } }, 'it continues nothing of the old one')
      t.equal((await fresh.delete(`/api/uploads/${own.body.uploadId}`)).status, 200)
    }
  })

  t.test('an expired token finishes what it began, and begins nothing', async t => {
    const expiresAt = new Date(clock.now() + hourMs).toISOString()
    const late = as((await mint('soon expired', { expiresAt })).token)
    const id = (await begin(late, shop.id, zip)).body.uploadId
    clock.advance(2 * hourMs)
    const expired = { status: 401, body: { code: 'token_expired' } }
    t.match(await begin(late, shop.id, Buffer.from('more')), expired)
    const file = { filename: 'a.zip', bytes: zip }
    t.match(
      await late.upload([
        ['projectId', shop.id],
        ['file', file]
      ]),
      expired
    )
    t.match(await late.upload([['file', file]]), expired)
    t.match(await late.get(`/api/deploy/check?projectId=${shop.id}`), expired)
    t.equal((await append(late, id, 0, zip)).status, 200)
    t.match(await deploy(late, shop.id, 'upl_another'), { status: 404, body: { code: 'upload_unknown' } })
    t.match(eventsOf(await deploy(late, shop.id, id)).at(-1), { status: 'success' })
    t.match(await append(late, id, 0, zip), expired, 'nothing is left to finish')
  })

  t.test('a refused deployment leaves the upload', async t => {
    const id = await send(pusher, shop.id, zip)
    await client.put(`/api/projects/${shop.id}/lock`, { reason: 'Sale' })
    t.match(await deploy(pusher, shop.id, id), { status: 409, body: { code: 'locked' } })
    t.match(await begin(pusher, shop.id, Buffer.from('y')), { status: 409, body: { code: 'locked' } })
    await client.delete(`/api/projects/${shop.id}/lock`)
    t.match(await deploy(pusher, shop.id, id, [['planId', 'plan_unknown']]), { status: 409 })
    t.match(eventsOf(await deploy(pusher, shop.id, id)).at(-1), { status: 'success' })
  })

  t.test('the form has one file', async t => {
    const id = await send(pusher, shop.id, zip)
    const file = { filename: 'a.zip', bytes: zip }
    const both = await pusher.upload([
      ['projectId', shop.id],
      ['uploadId', id],
      ['file', file]
    ])
    t.match(both, { status: 400, body: { code: 'invalid_field', field: 'uploadId' } })
    t.match(await pusher.upload([['projectId', shop.id]]), { status: 400, body: { code: 'no_file' } })
    await pusher.delete(`/api/uploads/${id}`)
  })

  t.test('limits hold at the beginning', async t => {
    await client.put('/api/settings', { max_upload_size: '1' })
    const big = { projectId: shop.id, bytes: 1024 * 1024 + 1 }
    t.match(await pusher.post('/api/uploads', big), { status: 413, body: { code: 'too_large' } })
    await client.put('/api/settings', { max_upload_size: '1000000' })
    const huge = { projectId: shop.id, bytes: (await freeBytes(home.directory)) ?? 0 }
    t.match(await pusher.post('/api/uploads', huge), { status: 503, body: { code: 'disk_full' } })
    await client.put(`/api/projects/${shop.id}`, { maxDiskMb: 2 })
    const two = { projectId: shop.id, bytes: 1024 * 1024 }
    t.equal((await pusher.post('/api/uploads', two)).status, 200)
    t.match(await pusher.post('/api/uploads', two), { status: 413, body: { code: 'project_quota' } }, 'reserved')
    await client.put(`/api/projects/${shop.id}`, { maxDiskMb: null })
    for (const bytes of [-1, 1.5, '7']) t.equal((await pusher.post('/api/uploads', { ...two, bytes })).status, 400)
    t.match(await pusher.post('/api/uploads', { ...two, bytes: 0 }), { status: 400, body: { code: 'empty_upload' } })
  })
})

t.test('bytes of a broken connection stay', async t => {
  const stage = await startServer(t)
  const shop = await stage.createProject('shop')
  const pusher = stage.as(shop.token)
  const zip = await zipOf({ 'index.html': 'x'.repeat(500) })
  const { uploadId: id } = (await begin(pusher, shop.id, zip)).body
  const { hostname, port } = new URL(stage.url)
  const socket = connect(Number(port), hostname)
  const head = [
    `PATCH /api/uploads/${id} HTTP/1.1`,
    'Host: localhost',
    `Authorization: Bearer ${shop.token}`,
    'Upload-Offset: 0',
    `Content-Length: ${zip.length}`
  ]
  socket.write(`${head.join('\r\n')}\r\n\r\n`)
  socket.write(zip.subarray(0, 100))
  await until(async () => (await pusher.get(`/api/uploads/${id}`)).body.offset === 100)
  t.match(await append(pusher, id, 100, zip.subarray(100)), { status: 409, body: { code: 'upload_busy' } })
  socket.destroy()
  await until(async () => (await append(pusher, id, 100, zip.subarray(100))).status === 200)
  t.match(eventsOf(await deploy(pusher, shop.id, id)).at(-1), { status: 'success' })
})

t.test('begins under a prefix, and says so in the permit', async t => {
  const stage = await startServer(t, { base: '/tools/svc' })
  const shop = await stage.createProject('shop')
  const pusher = stage.as(shop.token)
  const zip = await zipOf({ 'index.html': 'x' })
  t.match((await pusher.get(`/api/deploy/check?projectId=${shop.id}`)).body.features, ['confirm', 'startAt', 'pieces'])
  const id = await send(pusher, shop.id, zip, 64)
  t.match(eventsOf(await deploy(pusher, shop.id, id)).at(-1), { status: 'success' })
})
