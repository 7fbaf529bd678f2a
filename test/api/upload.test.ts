import t, { type Test } from 'tap'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { eventsOf, type FormFields, formOf } from '../support/client.js'
import { startServer } from '../support/server.js'
import { zipOf } from '../support/zip.js'
import { until } from '../support/until.js'
import { readUploadForm, runReply } from '../../lib/api/upload.js'
import type { ApiRequest } from '../../lib/api/route.js'
import type { Received } from '../../lib/deploy/intake.js'
import { type StoredBlock, storedLine } from '../../lib/deploy/output/stored-output.js'
import type { DeploymentRow } from '../../lib/model/deployment.js'
import { startServer as startHttpServer } from '../support/http-server.js'

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
      ['env has a name twice', own([['env', '{"A": "1", "A": "2"}']]), 400, 'env'],
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
    const coded = { 'content-type': contentType, 'content-encoding': 'gzip' }
    t.match(await pusher.send('POST', '/api/deploy/upload', { headers: coded, body }), {
      status: 415,
      body: { code: 'unsupported_type' }
    })
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

const file = { filename: 'a.zip', bytes: Buffer.from('the archive') }

function requestOf(fields: FormFields): ApiRequest {
  const { contentType, body } = formOf(fields)
  return {
    headers: { 'content-type': contentType },
    body: Readable.from([body]),
    hold: () => {},
    signal: new AbortController().signal
  } as unknown as ApiRequest
}

/** Receives files, and counts those that were deleted again. */
function taker() {
  const taken = { texts: [] as string[], discarded: 0 }
  const receive = async (bytes: Readable): Promise<Received> => {
    const chunks: Buffer[] = []
    for await (const chunk of bytes) chunks.push(chunk as Buffer)
    taken.texts.push(Buffer.concat(chunks).toString())
    return { discard: async () => void taken.discarded++ } as unknown as Received
  }
  return { taken, receive }
}

t.test('reads fields and file in any order', async t => {
  const fields: FormFields = [
    ['projectId', 'proj_a'],
    ['file', file],
    ['env', '{}']
  ]
  for (const order of [
    [0, 1, 2],
    [1, 0, 2],
    [2, 0, 1]
  ]) {
    const { taken, receive } = taker()
    const seen: string[] = []
    const form = await readUploadForm(requestOf(order.map(at => fields[at]) as FormFields), {
      receive,
      onField: name => void seen.push(name)
    })
    t.same(taken, { texts: ['the archive'], discarded: 0 })
    t.same(
      form.fields,
      new Map([
        ['projectId', 'proj_a'],
        ['env', '{}']
      ])
    )
    t.same(seen.sort(), ['env', 'projectId'])
  }
})

t.test('deletes the file exactly once after any error', async t => {
  const cases: Array<[FormFields, string, number]> = [
    [
      [
        ['file', file],
        ['a', '1'],
        ['a', '2']
      ],
      'invalid_field',
      1
    ],
    [
      [
        ['file', file],
        ['file', file]
      ],
      'invalid_field',
      1
    ],
    [
      [
        ['file', file],
        ['more', file]
      ],
      'invalid_field',
      1
    ],
    [
      [
        ['file', file],
        ['stop', '']
      ],
      'stopped',
      1
    ],
    [
      [
        ['stop', ''],
        ['file', file]
      ],
      'stopped',
      0
    ],
    [[['file', 'text']], 'invalid_field', 0],
    [[], 'no_file', 0]
  ]
  for (const [fields, code, discarded] of cases) {
    const { taken, receive } = taker()
    const reading = readUploadForm(requestOf(fields), {
      receive,
      onField(name) {
        if (name === 'stop') throw Object.assign(new Error('stop'), { code: 'stopped' })
      }
    })
    await t.rejects(reading, { code }, fields.map(([name]) => name).join())
    t.equal(taken.discarded, discarded)
  }
})

t.test('sends lines while they arrive, then the result', async t => {
  async function* follow(): AsyncIterable<StoredBlock> {
    for (const text of ['one', 'two "quoted"']) {
      yield { bytes: Buffer.from(storedLine('2030-01-01T00:00:00.000Z', text)), offset: 0 }
    }
  }
  const row = { id: 'dep_a', status: 'failed', duration: '1.00s' } as DeploymentRow
  const reply = runReply(
    { deployId: 'dep_a', finished: Promise.resolve(row) },
    { follow, unrecorded: () => null, confirmUntil: () => null },
    'https://deploy.example.org/deployments/dep_a'
  )
  if (reply.kind !== 'stream') throw new Error('it must be a stream')
  t.same(reply.headers['x-svc-deploy-url'], 'https://deploy.example.org/deployments/dep_a')
  const written: string[] = []
  const { signal } = new AbortController()
  await reply.run({
    signal,
    write: async chunk => void written.push(String(chunk)),
    sendHead: () => void written.push('head ')
  })
  t.equal(
    written.join(''),
    [
      'head {"event":"log","data":"one"}',
      '{"event":"log","data":"two \\"quoted\\""}',
      '{"event":"status","status":"failed","duration":"1.00s","deployId":"dep_a"}',
      ''
    ].join('\n')
  )
})

async function answerOf(t: Test, follow: () => AsyncIterable<StoredBlock>): Promise<Response> {
  const row = { id: 'dep_a', status: 'success', duration: '1.00s' } as DeploymentRow
  const { url } = await startHttpServer(t, [
    {
      method: 'GET',
      path: '/run',
      auth: 'public',
      handle: () =>
        runReply(
          { deployId: 'dep_a', finished: Promise.resolve(row) },
          { follow, unrecorded: () => null, confirmUntil: () => null },
          null
        )
    }
  ])
  return await fetch(`${url}/run`)
}

t.test('an unreadable output changes neither the headers nor the result', async t => {
  const follow = (): AsyncIterable<StoredBlock> => ({
    [Symbol.asyncIterator]: () => ({ next: () => Promise.reject(new Error('EIO: i/o error, read\nforged')) })
  })
  const answer = await answerOf(t, follow)
  t.equal(answer.status, 200)
  t.equal(answer.headers.get('x-svc-deploy-id'), 'dep_a')
  t.strictSame(
    (await answer.text())
      .trim()
      .split('\n')
      .map(line => JSON.parse(line)),
    [
      { event: 'log', data: '✗ Cannot read the output: EIO: i/o error, read\\nforged' },
      { event: 'status', status: 'success', duration: '1.00s', deployId: 'dep_a' }
    ]
  )
})

t.test('sends the headers before the first line', async t => {
  let begin: () => void = () => {}
  const begun = new Promise<void>(resolve => (begin = resolve))
  async function* follow(): AsyncIterable<StoredBlock> {
    await begun
  }
  const answer = await answerOf(t, follow)
  t.equal(answer.headers.get('x-svc-deploy-id'), 'dep_a')
  begin()
  t.match(await answer.text(), /"status":"success"/)
})

t.test('reports that the result is not recorded yet, and the result', async t => {
  async function* follow(): AsyncIterable<StoredBlock> {}
  const row = { id: 'dep_a', status: 'success', duration: '1.00s' } as DeploymentRow
  const deployer = {
    follow,
    unrecorded: (id: string) => `the end of ${id} is not recorded yet`,
    confirmUntil: () => null
  }
  const reply = runReply({ deployId: 'dep_a', finished: Promise.resolve(row) }, deployer, null)
  if (reply.kind !== 'stream') throw new Error('it must be a stream')
  const written: string[] = []
  const { signal } = new AbortController()
  await reply.run({ signal, write: async chunk => void written.push(String(chunk)), sendHead: () => {} })
  t.strictSame(written.join('').split('\n'), [
    '{"event":"log","data":"→ the end of dep_a is not recorded yet"}',
    '{"event":"status","status":"success","duration":"1.00s","deployId":"dep_a"}',
    ''
  ])
})

t.test('says once that the deployment waits to be confirmed', async t => {
  async function* follow(): AsyncIterable<StoredBlock> {
    for (const text of ['extracted', 'waiting', 'confirmed']) {
      yield { bytes: Buffer.from(storedLine('2030-01-01T00:00:00.000Z', text)), offset: 0 }
    }
  }
  const until = '2030-01-01T00:01:30.000Z'
  const answers = [null, until, until]
  const row = { id: 'dep_a', status: 'success', duration: '1.00s' } as DeploymentRow
  const deployer = { follow, unrecorded: () => null, confirmUntil: () => answers.shift() ?? null }
  const reply = runReply({ deployId: 'dep_a', finished: Promise.resolve(row) }, deployer, null)
  if (reply.kind !== 'stream') throw new Error('it must be a stream')
  const written: string[] = []
  const { signal } = new AbortController()
  await reply.run({ signal, write: async chunk => void written.push(String(chunk)), sendHead() {} })
  const events = written
    .join('')
    .trim()
    .split('\n')
    .map(line => JSON.parse(line) as { event: string })
  t.strictSame(
    events.map(({ event }) => event),
    ['log', 'log', 'confirm', 'log', 'status']
  )
  t.strictSame(events[2], { event: 'confirm', deployId: 'dep_a', until })
})

t.test('ends without a result if the next start continues the deployment', async t => {
  const row = { id: 'dep_a', status: 'running', duration: null } as DeploymentRow
  const deployer = { async *follow() {}, unrecorded: () => null, confirmUntil: () => null }
  const reply = runReply({ deployId: 'dep_a', finished: Promise.resolve(row) }, deployer, null)
  if (reply.kind !== 'stream') throw new Error('it must be a stream')
  const written: string[] = []
  const { signal } = new AbortController()
  await reply.run({ signal, write: async chunk => void written.push(String(chunk)), sendHead() {} })
  t.strictSame(written, [])
})
