import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { eventsOf, formOf, type FormFields } from '../support/client.js'
import { startServer } from '../support/server.js'
import { zipOf } from '../support/zip.js'
import { until } from '../support/until.js'

t.test('upload', async t => {
  const stage = await startServer(t, { settings: { global_deploy_token: 'global-deploy-token', max_upload_size: '2' } })
  const { client, as, sites, home } = stage
  const shop = await stage.createProject('shop')
  const other = await stage.createProject('other')
  const pusher = as(shop.token)
  const file = { filename: 'site.zip', bytes: await zipOf({ 'index.html': 'hello', 'css/a.css': 'a {}' }) }
  const push = (fields: FormFields, token = shop.token) => as(token).upload(fields)
  const own = (more: FormFields = []): FormFields => [['projectId', shop.id], ['file', file], ...more]
  const nothingIsLeft = () => readdirSync(home.tmp).length === 0

  t.test('streams the output, ends with the status, and installs the files', async t => {
    const reply = await push(own())
    t.equal(reply.status, 200)
    t.match(reply.headers, {
      'content-type': /^application\/x-ndjson/,
      'cache-control': 'no-store',
      'x-accel-buffering': 'no'
    })
    const events = eventsOf(reply)
    const status = events.pop()
    t.match(status, { event: 'status', status: 'success', duration: /^\d+\.\d+s$/, deployId: /^dep_/ })
    t.ok(events.length > 0)
    for (const event of events) t.match(event, { event: 'log', data: String })
    t.equal(readFileSync(join(sites, 'shop/index.html'), 'utf8'), 'hello')
    t.ok(nothingIsLeft())
    const record = (await client.get(`/api/logs/${status.deployId}`)).body
    t.match(record, {
      projectId: shop.id,
      projectName: 'shop',
      status: 'success',
      triggerSource: 'cli',
      actorIp: '127.0.0.1'
    })
    t.match((await client.get(`/api/projects/${shop.id}`)).body, { status: 'success', lastDeployAt: record.startTime })
  })

  t.test('the file may come before the other fields', async t => {
    const status = eventsOf(
      await push([
        ['file', file],
        ['postDeploy', 'echo "late field: $SVC_PROJECT_ID"'],
        ['projectId', shop.id]
      ])
    )
    t.match(status.at(-1), { status: 'success' })
    t.ok(status.some(({ data }) => data === `late field: ${shop.id}`))
  })

  t.test('every field is used', async t => {
    const events = eventsOf(
      await push(
        own([
          ['preDeploy', 'echo "pre $GREETING"'],
          ['postDeploy', 'echo "post $GREETING"'],
          ['postDeployAsync', '0'],
          ['env', JSON.stringify({ GREETING: 'hällo "you"' })],
          ['message', 'The first one'],
          ['unknown', 'ignored']
        ])
      )
    )
    t.ok(events.some(({ data }) => data === 'pre hällo "you"'))
    t.ok(events.some(({ data }) => data === 'post hällo "you"'))
    const record = (await client.get(`/api/logs/${events.at(-1).deployId}`)).body
    t.match(record, { message: 'The first one', status: 'success' })
    t.match(record.scripts, [
      { step: 'preDeploy', source: 'client' },
      { step: 'postDeploy', source: 'client', async: false }
    ])
  })

  t.test('a failed script fails the deployment; the response is 200 with that status', async t => {
    const reply = await push(own([['postDeploy', 'exit 3']]))
    t.equal(reply.status, 200)
    t.match(eventsOf(reply).at(-1), { event: 'status', status: 'failed', deployId: String })
  })

  t.test('accepts only tokens with access to the project', async t => {
    const projectId = (id: string): FormFields => [
      ['projectId', id],
      ['file', file]
    ]
    const cases: Array<[string, string, FormFields, number]> = [
      ["another project's token", other.token, projectId(shop.id), 403],
      ["a project's token for a project that is not there", shop.token, projectId('proj_unknown'), 403],
      [
        'the same, with the file first',
        other.token,
        [
          ['file', file],
          ['projectId', shop.id]
        ],
        403
      ],
      ['the global token', 'global-deploy-token', projectId(shop.id), 200],
      ['the global token for a project that is not there', 'global-deploy-token', projectId('proj_unknown'), 404],
      ['an unknown token', 'unknown', projectId(shop.id), 401],
      ['the admin token is no deploy token', stage.server.adminToken.current(), projectId(shop.id), 401]
    ]
    for (const [what, token, fields, status] of cases) t.equal((await push(fields, token)).status, status, what)
    t.equal((await as(null).upload(own())).status, 401, 'no token')
    t.ok(nothingIsLeft())
  })

  t.test('refuses an invalid form and keeps no file', async t => {
    const before = (await client.get('/api/logs')).headers['x-total-count']
    const cases: Array<[string, FormFields, number, string]> = [
      ['no file', [['projectId', shop.id]], 400, 'file'],
      [
        'the file as a text',
        [
          ['projectId', shop.id],
          ['file', 'text']
        ],
        400,
        'file'
      ],
      ['two files', [...own(), ['file', file]], 400, 'file'],
      [
        'a file by another name',
        [
          ['projectId', shop.id],
          ['archive', file]
        ],
        400,
        'archive'
      ],
      ['no projectId', [['file', file]], 400, 'projectId'],
      [
        'an empty projectId',
        [
          ['file', file],
          ['projectId', '']
        ],
        403,
        'projectId'
      ],
      ['projectId twice', [...own(), ['projectId', shop.id]], 400, 'projectId'],
      ['postDeployAsync', own([['postDeployAsync', 'yes']]), 400, 'postDeployAsync'],
      ['env is no JSON', own([['env', 'A=1']]), 400, 'env'],
      ['env is a list', own([['env', '["A"]']]), 400, 'env'],
      ['env is null', own([['env', 'null']]), 400, 'env'],
      ['env holds a number', own([['env', '{"A": 1}']]), 400, 'env.A'],
      ['rollout is no JSON', own([['rollout', 'canary=1']]), 400, 'rollout'],
      ['rollout has an unknown key', own([['rollout', '{"waves": 2}']]), 400, 'rollout.waves'],
      ['env holds no name', own([['env', '{"A=B": "1"}']]), 400, 'env'],
      ['a message that is too long', own([['message', 'x'.repeat(501)]]), 400, 'message'],
      ['a script that is too long', own([['preDeploy', 'x'.repeat(100_001)]]), 400, 'preDeploy']
    ]
    for (const [what, fields, status, field] of cases) {
      const reply = await push(fields)
      t.equal(reply.status, status, `${what}: ${reply.text}`)
      t.match(reply.body, { success: false, error: String, code: String, field }, what)
    }
    t.ok(nothingIsLeft())
    t.equal((await client.get('/api/logs')).headers['x-total-count'], before, 'none of them has a record')
  })

  t.test('refuses other content types and invalid boundaries', async t => {
    const { contentType, body } = formOf(own())
    const send = (type: string | undefined, bytes: Uint8Array) =>
      pusher.send('POST', '/api/deploy/upload', {
        headers: type === undefined ? {} : { 'content-type': type },
        body: bytes
      })
    t.equal((await send(undefined, body)).status, 415)
    t.equal((await send('application/json', Buffer.from('{}'))).status, 415)
    t.equal((await send('multipart/form-data', body)).status, 400)
    t.equal((await send('multipart/form-data; boundary=other', body)).status, 400)
    t.equal((await send(contentType, body.subarray(0, body.length - 30))).status, 400, 'cut in the file')
    t.ok(nothingIsLeft())
  })

  t.test('refuses a large upload by Content-Length before reading, and by its real size', async t => {
    const big = { filename: 'big.zip', bytes: Buffer.alloc(2 * 1024 * 1024 + 1) }
    const byCount = await push([
      ['projectId', shop.id],
      ['file', big]
    ])
    t.match(byCount, { status: 413, body: { code: 'too_large' } })
    const { port } = new URL(stage.url)
    const head = await new Promise<string>((resolve, reject) => {
      const socket = connect(Number(port), '127.0.0.1', () => {
        socket.write(
          `POST /api/deploy/upload HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${shop.token}\r\n` +
            'Content-Type: multipart/form-data; boundary=x\r\nContent-Length: 5000000\r\n\r\n'
        )
      })
      socket.once('data', bytes => {
        resolve(bytes.toString().split('\r\n')[0] as string)
        socket.destroy()
      })
      socket.on('error', reject)
    })
    t.match(head, /413/)
    t.ok(nothingIsLeft())
  })

  t.test('a client that disconnects during its upload leaves no file', async t => {
    const { contentType, body } = formOf(own())
    const before = (await client.get('/api/logs')).headers['x-total-count']
    for (const at of [1, 100, 200, 300, body.length - 60, body.length - 1])
      await cutOff(stage.url, shop.token, contentType, body, at)
    await until(nothingIsLeft)
    t.equal((await client.get('/api/logs')).headers['x-total-count'], before)
  })

  t.test('a client that disconnects after its upload does not stop the deployment', async () => {
    const { contentType, body } = formOf(own([['postDeploy', 'sleep 0.4; echo done > finished.txt']]))
    const reply = await pusher.open('POST', '/api/deploy/upload', { headers: { 'content-type': contentType }, body })
    await new Promise(resolve => reply.once('data', resolve))
    reply.destroy()
    await until(() => existsSync(join(sites, 'shop/finished.txt')))
  })

  t.test('refuses client scripts with 403 if they are disabled', async t => {
    await client.put(`/api/projects/${shop.id}`, { allowClientScripts: false })
    t.match(await push(own([['postDeploy', 'echo no']])), { status: 403, body: { code: 'client_scripts_off' } })
    t.equal((await push(own())).status, 200)
    await client.put(`/api/projects/${shop.id}`, { allowClientScripts: null })
    await client.put('/api/settings', { allow_client_scripts: 'false' })
    t.equal((await push(own([['preDeploy', 'echo no']]))).status, 403)
    await client.put('/api/settings', { allow_client_scripts: 'true' })
    t.ok(nothingIsLeft())
  })

  t.test('allowed_ips is checked before the body is read', async t => {
    await client.put('/api/settings', { allowed_ips: '127.0.0.1,10.0.0.0/8' })
    t.equal((await push(own())).status, 200)
    const reply = await pusher.upload(own(), { 'x-forwarded-for': '192.0.2.1' })
    t.match(reply, { status: 403, body: { code: 'address_not_allowed' } })
    await client.put('/api/settings', { allowed_ips: '' })
  })

  t.test('uploads are in the audit log', async t => {
    const { items } = (await client.get('/api/audit?limit=500')).body
    t.ok(items.some((item: { actor: string }) => item.actor === `project:${shop.id}`))
    t.ok(items.some((item: { actor: string }) => item.actor === 'global-deploy'))
  })
})

/** Sends the headers and the first bytes of the body, then closes the connection. */
async function cutOff(url: string, token: string, contentType: string, body: Buffer, at: number): Promise<void> {
  const { port } = new URL(url)
  await new Promise<void>((resolve, reject) => {
    const socket = connect(Number(port), '127.0.0.1', () => {
      socket.write(
        `POST /api/deploy/upload HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${token}\r\n` +
          `Content-Type: ${contentType}\r\nContent-Length: ${body.length}\r\n\r\n`
      )
      socket.write(body.subarray(0, at), () => setTimeout(() => socket.resetAndDestroy(), 15))
    })
    socket.on('close', () => resolve())
    socket.on('error', reject)
  })
}
