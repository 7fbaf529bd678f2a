import { appendFileSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { eventsOf, formOf, sentEventsOf, type FormFields } from '../support/client.js'
import { startReceiver } from '../support/receiver.js'
import { startServer } from '../support/server.js'
import { openStream } from '../support/sse.js'
import { zipOf } from '../support/zip.js'

/* The fields and types of §2 and §4, as a real server answers them. Other fields may be there. */

const instant = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/
const seconds = /^\d+(\.\d+)?s$/
const color = /^(blue|green|yellow|purple|pink|cyan|gray)$/

const project = {
  id: /^proj_/,
  name: String,
  description: String,
  deployPath: /^\//,
  token: String,
  preDeployScript: String,
  postDeployScript: String,
  postDeployAsync: Boolean,
  env: String,
  categoryId: null,
  pm2AppName: null,
  tagIds: Array,
  status: String,
  createdAt: instant,
  updatedAt: instant
}
const deployment = {
  id: String,
  projectId: /^proj_/,
  projectName: 'shop',
  status: /^(success|failed)$/,
  triggerSource: 'cli',
  startTime: instant,
  endTime: instant,
  duration: seconds,
  output: String,
  rollbackOf: null,
  artifactPath: /^deployments\/dep_\w+\.zip$/,
  artifactSize: Number
}
const logSource = {
  id: /^lsrc_/,
  projectId: /^proj_/,
  label: String,
  filePath: /^\//,
  kind: 'plain',
  sortOrder: Number,
  createdAt: instant,
  updatedAt: instant
}
const done = { success: true, message: String }

t.test('every answer has the fields of the specification', async t => {
  const stage = await startServer(t)
  const { client, as, sites } = stage
  const receiver = await startReceiver(t)
  const shop = await stage.createProject('shop', { postDeployScript: 'echo deployed' })
  const push = async (more: FormFields = []) => {
    const { contentType, body } = formOf([
      ['projectId', shop.id],
      ['file', { filename: 'a.zip', bytes: await zipOf({ 'index.html': 'hello', '.well-known/x': 'x' }) }],
      ...more
    ])
    return await as(shop.token).send('POST', '/api/deploy/upload', { headers: { 'content-type': contentType }, body })
  }
  const upload = await push()
  const { deployId } = eventsOf(upload).at(-1)
  const log = join(sites, 'shop.log')
  writeFileSync(log, 'one\ntwo error\nthree\n')
  const added = await client.post(`/api/projects/${shop.id}/log-sources`, { items: [{ filePath: log }] })
  const sourceId = added.body.items[0].id
  const tag = (await client.post('/api/tags', { name: 'a', color: 'blue', sortOrder: 1 })).body.tag
  const category = (await client.post('/api/categories', { name: 'a', color: 'pink', sortOrder: 1 })).body.category
  await client.put('/api/settings', { webhook_url: receiver.url })

  const reads: Array<[route: string, fields: unknown]> = [
    ['/api/projects', [project]],
    [`/api/projects?tagIds=${tag.id}`, []],
    [`/api/projects/${shop.id}`, project],
    [
      `/api/projects/${shop.id}/files`,
      [
        { name: '.well-known', path: '.well-known', isDir: true, isHidden: true, size: 0, mtime: instant },
        { name: 'index.html', path: 'index.html', isDir: false, isHidden: false, size: 5, mtime: instant }
      ]
    ],
    [`/api/projects/${shop.id}/file?path=index.html`, { type: 'text', content: 'hello', language: String }],
    ['/api/logs', [deployment]],
    [`/api/logs/${deployId}`, deployment],
    [
      '/api/settings',
      {
        webhook_url: receiver.url,
        webhook_events: 'deploy_success,deploy_failure',
        default_deploy_path: String,
        max_upload_size: /^\d+$/,
        global_deploy_token: String
      }
    ],
    [
      '/api/settings/status',
      {
        version: String,
        uptime: String,
        projectCount: 1,
        deploymentCount: 1,
        successCount: 1,
        failedCount: 0,
        successRate: 100
      }
    ],
    ['/api/health', { status: String, uptime: Number, version: String }],
    [
      '/api/health/detail',
      {
        version: String,
        runtime: { name: String, version: String },
        uptimeSec: Number,
        serverTime: instant,
        db: { ok: true, latencyMs: Number, path: String },
        disk: { freeBytes: Number, totalBytes: Number, percentUsed: Number },
        kiteHome: { path: String, writable: true, tmpWritable: true },
        deploy: { last5: Array, successRate: 1 },
        memoryMB: { rss: Number, heapUsed: Number }
      }
    ],
    [
      '/api/system/resources',
      {
        collectedAt: instant,
        host: {
          hostname: String,
          platform: String,
          arch: String,
          cpuModel: String,
          cpuCount: Number,
          loadAvg: [Number, Number, Number],
          uptimeSec: Number
        },
        cpu: { percent: Number },
        memory: {
          totalBytes: Number,
          freeBytes: Number,
          availableBytes: Number,
          usedBytes: Number,
          percentUsed: Number
        },
        disk: { freeBytes: Number, totalBytes: Number, percentUsed: Number },
        process: {
          pid: Number,
          runtime: String,
          runtimeVersion: String,
          uptimeSec: Number,
          cpuPercent: Number,
          memoryRssBytes: Number,
          memoryHeapUsedBytes: Number
        }
      }
    ],
    [`/api/projects/${shop.id}/log-sources`, { items: [logSource] }],
    [
      `/api/log-sources/${sourceId}/meta`,
      { id: sourceId, label: String, filePath: log, resolvedPath: log, kind: 'plain', size: 20 }
    ],
    [
      `/api/log-sources/${sourceId}/range`,
      {
        startOffset: 0,
        endOffset: 20,
        fileSize: 20,
        lines: ['one', 'two error', 'three'],
        truncatedHead: false,
        truncatedTail: false,
        binary: false
      }
    ],
    ['/api/categories', [{ id: String, name: 'a', color, sortOrder: 1 }]],
    ['/api/tags', [{ id: String, name: 'a', color, sortOrder: 1, projectCount: 0 }]],
    ['/api/pm2/available', { available: Boolean }],
    [`/api/projects/${shop.id}/pm2`, { bound: false }],
    ['/api/audit', { items: Array }]
  ]
  for (const [path, fields] of reads) {
    const { status, body } = await client.get(path)
    t.equal(status, 200, path)
    t.match(body, fields as object, `GET ${path}`)
    if (Array.isArray(fields)) t.equal(body.length, fields.length, `GET ${path}`)
  }

  t.test('changes', async t => {
    const path = `/api/projects/${shop.id}`
    t.match((await client.put(path, { description: 'a shop', pm2AppName: '' })).body, { success: true, project })
    t.match((await client.post(`${path}/token`)).body, { success: true, token: String })
    t.match((await client.put('/api/settings', { max_upload_size: '400' })).body, done)
    t.match((await client.post('/api/settings/webhook-test')).body, {
      success: true,
      statusCode: 200,
      durationMs: Number,
      attempts: 1
    })
    t.match((await client.post('/api/auth/login', { token: stage.server.adminToken.current() })).body, done)
    t.match((await client.patch(`/api/log-sources/${sourceId}`, { sortOrder: 2 })).body, { success: true })
    t.match((await client.put(`/api/categories/${category.id}`, { name: 'b' })).body, { success: true })
    t.match((await client.delete(`/api/tags/${tag.id}`)).body, { success: true, detachedProjects: 0 })
    t.match((await client.delete(`/api/log-sources/${sourceId}`)).body, { success: true })
  })

  t.test('streams', async t => {
    const [first, ...others] = eventsOf(upload)
    t.match(first, { event: 'log', data: String })
    t.match(others.at(-1), { event: 'status', status: 'success', duration: seconds, deployId })
    t.match(sentEventsOf((await client.get(`/api/logs/${deployId}/stream`)).text), [
      { event: 'log', data: String },
      { event: 'status', data: { status: 'success', duration: seconds } }
    ])
    const { body } = await client.post(`/api/projects/${shop.id}/log-sources`, { items: [{ filePath: log }] })
    const { id } = body.items[0]
    const tail = await openStream(client, `/api/log-sources/${id}/stream?tailLines=2`)
    t.match((await tail.next('snapshot')).data, { lines: ['two error', 'three'], size: 20, binary: false })
    appendFileSync(log, 'four\n')
    t.match((await tail.next('lines')).data, { lines: ['four'] })
    tail.close()
    t.match(sentEventsOf((await client.get(`/api/log-sources/${id}/search?q=error&context=1`)).text), [
      { event: 'hit', data: { offset: 4, text: 'two error', before: ['one'], after: ['three'] } },
      { event: 'done', data: { scannedBytes: Number } }
    ])
  })

  t.test('a rollback names its source in its answer and in its record', async t => {
    await client.post(`/api/projects/${shop.id}/token`)
    const { body } = await client.post(`/api/deployments/${deployId}/rollback`)
    t.match(body, { success: true, status: 'success', duration: seconds, rollbackOf: deployId })
    const record = (await client.get(`/api/logs/${body.deployId}`)).body
    t.match(record, { ...deployment, triggerSource: 'rollback', rollbackOf: deployId })
    const failed = await client.put(`/api/projects/${shop.id}`, { postDeployScript: 'exit 3' })
    t.equal(failed.status, 200)
    const answer = (await client.post(`/api/deployments/${deployId}/rollback`)).body
    t.match(answer, { success: false, status: 'failed', rollbackOf: deployId, error: String })
    t.equal((await client.get('/api/health/detail')).body.deploy.successRate, 0.667)
  })
})

t.test('an answer of 409 names the record that is in the way', async t => {
  const stage = await startServer(t)
  const { client, sites } = stage
  const shop = await stage.createProject('shop')
  const blog = await stage.createProject('blog')
  const other = { conflictProject: { id: shop.id, name: 'shop' } }
  const taken = { status: 409, body: { code: 'path_taken', ...other } }
  t.match(await client.post('/api/projects', { name: 'x', deployPath: join(sites, 'shop') }), taken)
  t.match(await client.post('/api/projects', { name: 'x', deployPath: join(sites, 'shop/below') }), taken)
  t.match(await client.put(`/api/projects/${blog.id}`, { deployPath: join(sites, 'shop') }), taken)

  for (const [path, field] of [
    ['/api/tags', 'tag'],
    ['/api/categories', 'category']
  ] as const) {
    const made = (await client.post(path, { name: 'Web', color: null })).body[field]
    t.match(made, { color: 'blue' }, 'null is no colour: the first unused one')
    t.match((await client.put(`${path}/${made.id}`, { color: null, sortOrder: 3 })).body[field], {
      color: 'blue',
      sortOrder: 3
    })
    const conflict = `conflict${field.charAt(0).toUpperCase()}${field.slice(1)}`
    t.match(await client.post(path, { name: 'WEB' }), {
      status: 409,
      body: { [conflict]: { id: made.id, name: 'Web' } }
    })
  }
  const { record } = (await client.post('/api/tokens', { name: 'ci', role: 'viewer' })).body
  t.match(await client.post('/api/tokens', { name: 'ci', role: 'viewer' }), {
    status: 409,
    body: { code: 'name_taken', conflictToken: { id: record.id, name: 'ci' } }
  })

  mkdirSync(blog.deployPath)
  const { contentType, body } = formOf([
    ['projectId', blog.id],
    ['file', { filename: 'a.zip', bytes: await zipOf({ a: 'a' }) }],
    ['postDeploy', 'until [ -e go ]; do sleep 0.02; done']
  ])
  const reply = await stage
    .as(blog.token)
    .open('POST', '/api/deploy/upload', { headers: { 'content-type': contentType }, body })
  const id = reply.headers['x-svc-deploy-id']
  const running = { status: 409, body: { code: 'deployment_running', conflictDeployment: { id } } }
  t.match(await client.delete(`/api/projects/${blog.id}`), running)
  t.match(await client.put(`/api/projects/${blog.id}`, { deployPath: join(sites, 'moved') }), running)
  writeFileSync(join(blog.deployPath, 'go'), '')
  reply.resume()
})

t.test('log sources take every kind', async t => {
  const { client, createProject, sites } = await startServer(t)
  const { id } = await createProject('shop')
  const kinds = ['plain', 'json', 'ansi', 'pm2', 'nginx']
  const items = kinds.map(kind => ({ filePath: join(sites, `${kind}.log`), kind }))
  const { status, body } = await client.post(`/api/projects/${id}/log-sources`, { items })
  t.equal(status, 200)
  t.same(
    body.items.map((source: { kind: string }) => source.kind),
    kinds
  )
  t.equal((await client.patch(`/api/log-sources/${body.items[0].id}`, { kind: 'pm2' })).body.source.kind, 'pm2')
  t.equal((await client.patch(`/api/log-sources/${body.items[0].id}`, { kind: 'apache' })).status, 400)
})

t.test('a telemetry report may give its time as a number', async t => {
  const { client } = await startServer(t)
  const report = { event: 'svc.push.start', svcVersion: '1', instanceId: 'a', os: 'linux', arch: 'x64' }
  const send = (ts: unknown) => client.post('/api/public/telemetry/report', { ...report, ts })
  t.equal((await send(Date.now())).status, 200)
  t.match((await client.get('/api/public/telemetry/overview')).body.totals, { pushes: 1 })
  for (const ts of [-1, 1.5, 1e300, null, true])
    t.match(await send(ts), { status: 400, body: { field: 'ts' } }, `${ts}`)
})
