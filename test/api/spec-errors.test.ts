import { renameSync, symlinkSync, writeFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import type { Test } from 'tap'
import { apiRoutes } from '../../lib/api/routes.js'
import type { ApiServices } from '../../lib/api/services.js'
import type { Caller } from '../../lib/access/bearer.js'
import type { DiskFigures } from '../../lib/model/machine.js'
import { createHealth } from '../../lib/operate/machine/health.js'
import { createProbe, type Probe } from '../../lib/operate/machine/probe.js'
import { findPm2 } from '../../lib/operate/pm2.js'
import { eventsOf, formOf, type FormFields, type SendOptions } from '../support/client.js'
import { startServer as startHttp } from '../support/http-server.js'
import { startReceiver } from '../support/receiver.js'
import { adminToken, startServer, type Stage } from '../support/server.js'
import { openStream } from '../support/sse.js'
import { openStage } from '../support/store.js'
import { svc, type Ended } from '../support/svc.js'
import { zipOf } from '../support/zip.js'
import { until } from '../support/until.js'

/** The rows of section 7 of the specification. Each needs a test below. */
const conditions = [
  'project id unknown',
  'deployment id unknown',
  'webhook-test without webhook_url',
  'login or token-change lockout',
  'public health when unhealthy',
  'detailed health when unhealthy',
  'path without the configured prefix',
  'webhook delivery failure',
  'async post-deploy failure',
  'search or tail stream fault',
  '--pm2 without pm2',
  'rollback without --yes, no terminal',
  'overwrite import without confirmation',
  'package schemaVersion above supported'
] as const

type Condition = (typeof conditions)[number]
const asserted = new Set<Condition>()

function section7(
  condition: Condition,
  what: string,
  options: { skip?: string | false },
  run: (t: Test) => Promise<void>
): void {
  asserted.add(condition)
  void t.test(`§7: ${condition}: ${what}`, options, run)
}

interface Answer {
  status: number
  headers: object
  body: unknown
}

/** Errors that the server answers. */
interface Row {
  condition: Condition
  /** Distinguishes several rows with the same condition. */
  what?: string
  status: number
  body: object
  headers?: Record<string, RegExp>
  /** Prepares the condition, then sends the request. */
  ask(stage: Stage, t: Test): Promise<Answer>
}

const refused = { success: false, error: String, code: String }
const wrong = 'wrong-token-0123456789'

const rows: Row[] = [
  {
    condition: 'project id unknown',
    status: 404,
    body: refused,
    ask: ({ client }) => client.get('/api/projects/proj_unknown')
  },
  {
    condition: 'deployment id unknown',
    status: 404,
    body: refused,
    ask: ({ client }) => client.get('/api/logs/dep_unknown')
  },
  {
    condition: 'webhook-test without webhook_url',
    status: 400,
    body: { ...refused, field: 'webhook_url' },
    ask: ({ client }) => client.post('/api/settings/webhook-test')
  },
  {
    condition: 'login or token-change lockout',
    what: 'login',
    status: 429,
    body: refused,
    headers: { 'retry-after': /^(?:300|29\d)$/ },
    async ask({ as }) {
      for (let i = 0; i < 8; i++) await as(null).post('/api/auth/login', { token: wrong })
      return as(null).post('/api/auth/login', { token: wrong })
    }
  },
  {
    condition: 'login or token-change lockout',
    what: 'token change, and both count',
    status: 429,
    body: refused,
    headers: { 'retry-after': /^(?:300|29\d)$/ },
    async ask({ client, as }) {
      for (let i = 0; i < 4; i++) await as(null).post('/api/auth/login', { token: wrong })
      const change = () => client.post('/api/settings/token', { oldToken: wrong, newToken: 'another-token-0123456789' })
      for (let i = 0; i < 4; i++) await change()
      return change()
    }
  },
  {
    condition: 'webhook delivery failure',
    what: 'one retry, an audit entry with the host only',
    status: 200,
    body: {
      items: [{ action: 'webhook.send', ok: false, target: /^127\.0\.0\.1:\d+$/, detail: /answered 500, 2 attempts/ }]
    },
    async ask(stage, t) {
      await pushWithFailingWebhook(stage, t)
      return auditOf(stage, 'webhook.send')
    }
  },
  {
    condition: 'webhook delivery failure',
    what: 'the deployment is unaffected',
    status: 200,
    body: { status: 'success', errorMessage: null },
    async ask(stage, t) {
      const deployId = await pushWithFailingWebhook(stage, t)
      await auditOf(stage, 'webhook.send')
      return stage.client.get(`/api/logs/${deployId}`)
    }
  },
  {
    condition: 'async post-deploy failure',
    what: 'an audit entry',
    status: 200,
    body: { items: [{ action: 'deploy.post_deploy_failed', ok: false, projectId: /^proj_/, detail: /exit code 4/ }] },
    async ask(stage) {
      await push(stage, ['postDeploy', 'exit 4'], ['postDeployAsync', 'true'])
      return auditOf(stage, 'deploy.post_deploy_failed')
    }
  },
  {
    condition: 'async post-deploy failure',
    what: 'the deployment stays a success',
    status: 200,
    body: { status: 'success' },
    async ask(stage) {
      const deployId = await push(stage, ['postDeploy', 'exit 4'], ['postDeployAsync', 'true'])
      await auditOf(stage, 'deploy.post_deploy_failed')
      return stage.client.get(`/api/logs/${deployId}`)
    }
  },
  {
    condition: 'search or tail stream fault',
    what: 'search',
    status: 200,
    body: [{ event: 'error', data: { message: /Cannot show ".*app\.log": the gzip file is incomplete/ } }],
    headers: { 'content-type': /^text\/event-stream/ },
    async ask(stage) {
      // A truncated compressed log can be opened, but not read.
      const { source } = await addLog(stage, gzipSync('line\n'.repeat(10_000)).subarray(0, 60))
      const stream = await openStream(stage.client, `${source}/search?q=line`)
      await stream.ended
      return { ...stream, body: stream.events }
    }
  },
  {
    condition: 'search or tail stream fault',
    what: 'tail',
    status: 200,
    body: [{ event: 'snapshot' }, { event: 'error', data: { message: /Cannot read "/ } }],
    headers: { 'content-type': /^text\/event-stream/ },
    async ask(stage) {
      const { source, path } = await addLog(stage, 'line\n')
      const stream = await openStream(stage.client, `${source}/stream`)
      await stream.next('snapshot')
      // The link is changed to a denied path while the file is followed.
      symlinkSync(stage.home.database, `${path}.link`)
      renameSync(`${path}.link`, path)
      await stream.next('error', 20_000)
      stream.close()
      return { ...stream, body: stream.events }
    }
  },
  {
    condition: 'overwrite import without confirmation',
    what: 'the API wants its header',
    status: 400,
    body: { ...refused, code: 'confirmation_needed' },
    ask: async ({ client }) =>
      client.send('POST', '/api/migration/import?strategy=overwrite', await packageForm({ schemaVersion: 1 }))
  },
  {
    condition: 'package schemaVersion above supported',
    what: 'the API',
    status: 409,
    body: { ...refused, code: 'newer_package' },
    ask: async ({ client }) => client.send('POST', '/api/migration/import', await packageForm({ schemaVersion: 2 }))
  }
]

for (const { condition, what, status, body, headers = {}, ask } of rows) {
  section7(condition, what === undefined ? `${status}` : `${what}: ${status}`, {}, async t => {
    const reply = await ask(await startServer(t), t)
    t.equal(reply.status, status)
    t.match(reply.body, body)
    t.match(reply.headers, headers)
  })
}

/** Errors of commands. */
interface CommandRow {
  condition: Condition
  skip?: string | false
  /** The message of the refusal. */
  stderr: RegExp
  run(stage: Stage, t: Test): Promise<Ended>
}

const commandRows: CommandRow[] = [
  {
    condition: '--pm2 without pm2',
    skip: (await findPm2({ PATH: '' })) !== null && 'pm2 is installed on this machine',
    stderr: /^error: .*npm install -g pm2/,
    run: ({ sites }) => svc(['serve', '--pm2'], { cwd: sites, env: { PATH: '/nowhere' } })
  },
  {
    condition: 'rollback without --yes, no terminal',
    stderr: /[Uu]se --yes/,
    async run(stage) {
      const deployId = await push(stage)
      const env = { SVC_SERVER_URL: stage.url, SVC_TOKEN: adminToken }
      const ended = await svc(['rollback', '--to', deployId], { cwd: stage.sites, env })
      if ((await stage.client.get('/api/logs')).body.length !== 1) throw new Error('It was rolled back all the same')
      return ended
    }
  },
  {
    condition: 'overwrite import without confirmation',
    stderr: /[Uu]se --yes/,
    run: stage => importPackage(stage, 1, '--strategy', 'overwrite')
  },
  {
    condition: 'package schemaVersion above supported',
    stderr: /its schemaVersion is 2, but this svc supports at most 1/,
    run: stage => importPackage(stage, 2)
  }
]

for (const { condition, skip = false, stderr, run } of commandRows) {
  section7(condition, 'the command ends with 1', { skip }, async t => {
    t.match(await run(await startServer(t), t), { code: 1, stdout: '', stderr })
  })
}

/** Returns the id of a finished deployment of a new project. */
async function push(stage: Stage, ...fields: FormFields): Promise<string> {
  const project = await stage.createProject('shop')
  const bytes = await zipOf({ 'index.html': 'hello' })
  return eventsOf(
    await stage.as(project.token).upload([['projectId', project.id], ...fields, ['file', { filename: 'a.zip', bytes }]])
  ).at(-1).deployId
}

async function pushWithFailingWebhook(stage: Stage, t: Test): Promise<string> {
  const receiver = await startReceiver(t)
  receiver.behave(500)
  await stage.client.put('/api/settings', { webhook_url: `${receiver.url}/hook` })
  return push(stage)
}

/** Waits for such an entry, and returns the audit log. */
function auditOf({ client }: Stage, action: string): Promise<Answer> {
  return until(async () => {
    const reply = await client.get(`/api/audit?action=${action}`)
    return reply.body.items.length > 0 && reply
  })
}

async function addLog({ client, createProject, sites }: Stage, contents: string | Uint8Array) {
  const path = join(sites, 'app.log')
  writeFileSync(path, contents)
  const { id } = await createProject('shop')
  const { body } = await client.post(`/api/projects/${id}/log-sources`, { items: [{ filePath: path }] })
  return { path, source: `/api/log-sources/${body.items[0].id}` }
}

const packageOf = (manifest: object): Promise<Buffer> => zipOf({ 'svc-export/manifest.json': JSON.stringify(manifest) })

async function packageForm(manifest: object): Promise<SendOptions> {
  const { contentType, body } = formOf([['file', { filename: 'package.zip', bytes: await packageOf(manifest) }]])
  return { headers: { 'content-type': contentType }, body }
}

async function importPackage({ sites, home }: Stage, schemaVersion: number, ...words: string[]): Promise<Ended> {
  writeFileSync(join(sites, 'package.zip'), await packageOf({ schemaVersion }))
  return svc(['import', 'package.zip', ...words], { cwd: sites, env: { SVC_HOME: home.directory } })
}

section7('path without the configured prefix', '404', {}, async t => {
  const { url } = await startServer(t, { base: 'deploy' })
  t.equal((await fetch(`${url}/api/health`)).status, 200)
  for (const path of ['/', '/api/health', '/deployment/api/health']) {
    t.equal((await fetch(new URL(path, url))).status, 404, path)
  }
})

/** Serves the health routes with a store and a disk that can fail. */
async function startHealth(t: Test) {
  const { store, clock, directory } = await openStage(t)
  const world = { dbOk: true, percentUsed: 50 as number | null, home: directory }
  const disk = (): DiskFigures => ({ freeBytes: 1, totalBytes: 2, percentUsed: world.percentUsed })
  const watched = { ...store, state: () => ({ ...store.state(), ok: world.dbOk }) }
  const facts = { store: watched, clock, version: '1', startedAtMs: clock.now(), hasToken: () => true }
  const [here, gone] = [directory, `${directory}/gone`].map(home => createProbe({ ...facts, directory: home })) as [
    Probe,
    Probe
  ]
  const probe = (): Probe => (world.home === directory ? here : gone)
  const health = createHealth({
    store: watched,
    clock,
    version: '1',
    probe: { report: () => probe().report(), isWritable: () => probe().isWritable() },
    home: {
      get directory() {
        return world.home
      },
      tmp: directory
    },
    diskOf: async () => disk()
  })
  const stage = await startServer(t)
  const needs: ApiServices = { ...stage.server.services.api, health }
  const actor = { name: 'admin', ip: null, projects: null } as unknown as Caller
  const { url } = await startHttp(t, apiRoutes(needs) as never, { authorize: () => actor })
  return { world, url, directory }
}

section7('public health when unhealthy', '503', {}, async t => {
  const { world, url } = await startHealth(t)
  world.dbOk = false
  const reply = await fetch(`${url}/api/health`)
  t.equal(reply.status, 503)
  t.match(await reply.json(), { status: String, uptime: Number, version: String })
})

section7('detailed health when unhealthy', '503 in the same shape, and so the probe', {}, async t => {
  const { world, url, directory } = await startHealth(t)
  const well = { ...world }
  const cases: Array<[what: string, change: Partial<typeof world>, probe: number, detail: number]> = [
    ['all is well', {}, 200, 200],
    ['the store', { dbOk: false }, 503, 503],
    ['the data directory cannot be written', { home: `${directory}/gone` }, 503, 503],
    ['the disk at 95 %', { percentUsed: 95 }, 200, 503],
    ['the disk at 94.99 %', { percentUsed: 94.99 }, 200, 200],
    ['no figures of the disk', { percentUsed: null }, 200, 200]
  ]
  const shapes = new Set<string>()
  for (const [what, change, probe, detail] of cases) {
    Object.assign(world, well, change)
    const [first, second] = [await fetch(`${url}/api/health`), await fetch(`${url}/api/health/detail`)]
    t.equal(first.status, probe, `${what}: probe`)
    t.equal(second.status, detail, `${what}: detail`)
    shapes.add(Object.keys((await first.json()) as object).join() + Object.keys((await second.json()) as object).join())
  }
  t.equal(shapes.size, 1)
})

section7('detailed health when unhealthy', 'the real data directory, gone', {}, async t => {
  const { client, home } = await startServer(t)
  await rm(home.directory, { recursive: true })
  t.match(await client.get('/api/health/detail'), {
    status: 503,
    body: { kiteHome: { writable: false, tmpWritable: false } }
  })
  t.match(await client.get('/api/health'), { status: 503, body: { status: 'unhealthy' } })
})

t.test('every row of §7 has a test', async t => {
  t.same(
    conditions.filter(condition => !asserted.has(condition)),
    []
  )
})
