import { once } from 'node:events'
import { mkdirSync, readdirSync } from 'node:fs'
import { request, type IncomingMessage } from 'node:http'
import { connect } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { createClient, eventsOf, formOf, type Client, type FormFields } from '../support/client.js'
import { createRandom } from '../support/random.js'
import { startServer, type Stage } from '../support/server.js'
import { smallDisk } from '../support/small-disk.js'
import { zipOf } from '../support/zip.js'

const mb = 1024 * 1024

/** An archive that does not compress. */
async function archive(bytes: number): Promise<{ filename: string; bytes: Buffer }> {
  const random = createRandom(bytes)
  // Repetitions are twice as far apart as the window of deflate.
  const block = Buffer.from(Array.from({ length: 64 * 1024 }, () => random.below(256)))
  const content = Buffer.alloc(bytes, block)
  return { filename: 'site.zip', bytes: await zipOf({ 'data.bin': content }) }
}

/** Sends only the headers of an upload, with `Expect: 100-continue`, and returns the response. */
async function headOnly({ url }: Stage, token: string, bytes: number): Promise<string> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  socket.write(
    'POST /api/deploy/upload HTTP/1.1\r\nHost: a\r\nConnection: close\r\nExpect: 100-continue\r\n' +
      `Content-Type: multipart/form-data; boundary=x\r\nContent-Length: ${bytes}\r\nAuthorization: Bearer ${token}\r\n\r\n`
  )
  const [first] = (await once(socket, 'data')) as [Buffer]
  socket.destroy()
  return first.toString()
}

const statusOf = (reply: { text: string }): string => eventsOf(reply).at(-1).status

t.test('refuses an upload that would exceed max_home_size before its body, and says what to do', async t => {
  const stage = await startServer(t, { settings: { max_home_size: '8', keep_archives: '1' } })
  const { client, home } = stage
  const shop = await stage.createProject('shop')
  const pusher = stage.as(shop.token)
  const file = await archive(2 * mb)
  const push = () =>
    pusher.upload([
      ['projectId', shop.id],
      ['file', file]
    ])
  t.equal(statusOf(await push()), 'success')
  const answer = await headOnly(stage, shop.token, 5 * mb)
  t.match(answer, /^HTTP\/1\.1 413 .*"code":"home_full"/s)
  t.match(answer, 'raise max_home_size')
  t.match(await headOnly(stage, shop.token, 1 * mb), /^HTTP\/1\.1 100 /)
  t.equal(statusOf(await push()), 'success', 'removes the archive before this one to free space')
  t.equal(statusOf(await push()), 'success')
  t.equal(statusOf(await push()), 'success')
  t.same(readdirSync(home.tmp), [])
  await client.put('/api/settings', { max_home_size: '4' })
  t.match(await push(), { status: 413, body: { success: false, code: 'home_full', field: 'file' } })
  t.match(await push(), { status: 413 })
  t.same(readdirSync(home.tmp), [])
  await client.put('/api/settings', { max_home_size: '' })
  t.equal(statusOf(await push()), 'success')
})

t.test('refuses an upload over the limit of its project: by its token, or by the field projectId', async t => {
  const stage = await startServer(t, { settings: { global_deploy_token: 'global-deploy-token' } })
  const shop = await stage.createProject('shop', { maxDiskMb: 2 })
  const other = await stage.createProject('other')
  t.equal(shop.maxDiskMb, 2)
  const file = await archive(1.5 * mb)
  const push = (token: string, fields: FormFields) => stage.as(token).upload(fields)
  t.equal(
    statusOf(
      await push(shop.token, [
        ['projectId', shop.id],
        ['file', file]
      ])
    ),
    'success'
  )
  t.match(await headOnly(stage, shop.token, 1 * mb), /^HTTP\/1\.1 413 .*"code":"project_quota"/s)
  for (const fields of [
    [
      ['projectId', shop.id],
      ['file', file]
    ],
    [
      ['file', file],
      ['projectId', shop.id]
    ]
  ] as FormFields[]) {
    t.match(
      await push('global-deploy-token', fields),
      { status: 413, body: { code: 'project_quota' } },
      String(fields[0]?.[0])
    )
  }
  t.equal(
    statusOf(
      await push('global-deploy-token', [
        ['projectId', other.id],
        ['file', file]
      ])
    ),
    'success'
  )
  t.same(readdirSync(stage.home.tmp), [])
  const { deployId } = eventsOf(
    await push(other.token, [
      ['projectId', other.id],
      ['file', file]
    ])
  ).at(-1)
  t.match(await stage.client.get(`/api/logs/${deployId}`), { body: { status: 'success' } })
  await stage.client.put(`/api/projects/${shop.id}`, { maxDiskMb: null })
  t.equal(
    statusOf(
      await push(shop.token, [
        ['projectId', shop.id],
        ['file', file]
      ])
    ),
    'success'
  )
})

t.test('refuses an upload without a length when it becomes too large, and keeps nothing of it', async t => {
  const stage = await startServer(t, { settings: { max_home_size: '6' } })
  const shop = await stage.createProject('shop')
  const { contentType, body } = formOf([
    ['projectId', shop.id],
    ['file', await archive(6 * mb)]
  ])
  const asked = request(`${stage.url}/api/deploy/upload`, {
    method: 'POST',
    headers: { authorization: `Bearer ${shop.token}`, 'content-type': contentType, 'transfer-encoding': 'chunked' }
  })
  asked.end(body)
  const [reply] = (await once(asked, 'response')) as [IncomingMessage]
  t.equal(reply.statusCode, 413)
  t.match(JSON.parse(Buffer.concat(await reply.toArray()).toString()), { code: 'home_full' })
  t.same(readdirSync(stage.home.tmp), [])
})

t.test('the limit applies to an import, too', async t => {
  const stage = await startServer(t, { settings: { max_home_size: '5' } })
  const form: FormFields = [['file', { filename: 'package.zip', bytes: Buffer.alloc(6 * mb) }]]
  const { contentType, body } = formOf(form)
  const reply = await stage.client.send('POST', '/api/migration/import', {
    headers: { 'content-type': contentType },
    body
  })
  t.match(reply, { status: 413, body: { code: 'home_full' } })
})

t.test('the output of a script is cut at max_output_size, with a note', async t => {
  const stage = await startServer(t, { settings: { max_output_size: '1' } })
  const shop = await stage.createProject('shop', { postDeployScript: 'yes "" | head -c 3000000; echo the end' })
  const file = await archive(1000)
  const events = eventsOf(
    await stage.as(shop.token).upload([
      ['projectId', shop.id],
      ['file', file]
    ])
  )
  t.equal(events.at(-1).status, 'success')
  const { text } = await stage.client.get(`/api/logs/${events.at(-1).deployId}/output?timestamps=1`)
  t.ok(text.includes('the output exceeds 1.0 MB: the rest is discarded (setting max_output_size)'))
  t.ok(text.length < 1.1 * mb, `${text.length} bytes`)
  t.notOk(text.includes('the end\n'))
})

t.test('settings can be changed and health is 200 after uploads have filled the disk', async t => {
  const disk = smallDisk(t, 24 * mb)
  if (disk === null) return
  mkdirSync(join(disk, 'targets'))
  const stage = await startServer({ testdir: () => disk, teardown: work => t.teardown(work) })
  const shop = await stage.createProject('shop', { deployPath: join(t.testdir({}), 'shop') })
  const client: Client = createClient(() => stage.url, shop.token)
  const file = await archive(3 * mb)
  let last
  for (let count = 0; count < 12 && last?.status !== 503; count++) {
    last = await client.upload([
      ['projectId', shop.id],
      ['file', file]
    ])
  }
  t.match(last, { status: 503, body: { code: 'disk_full', error: /too little space would be left/ } })
  t.match(await headOnly(stage, shop.token, 3 * mb), /^HTTP\/1\.1 503 /, 'before the body')
  for (let count = 0; count < 20; count++) {
    t.equal((await stage.client.put('/api/settings', { keep_archives: String(10 + count) })).status, 200)
  }
  t.equal((await stage.client.get('/api/health')).status, 200)
  await stage.client.post('/api/storage/clean', { keep: 1 })
  t.equal(
    statusOf(
      await client.upload([
        ['projectId', shop.id],
        ['file', file]
      ])
    ),
    'success'
  )
})
