import t from 'tap'
import type { Test } from 'tap'
import { chmodSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { once } from 'node:events'
import type { FileHandle } from 'node:fs/promises'
import type { Project } from '../../lib/model/project.js'
import { apiRoutes } from '../../lib/api/routes.js'
import { type ClientReply, formOf } from '../support/client.js'
import { enrolledAgent } from '../support/fake-agent.js'
import { type Stage, startServer } from '../support/server.js'
import { exampleFields, exampleValues } from '../support/project-examples.js'
import { openStream } from '../support/sse.js'
import { zipOf } from '../support/zip.js'
import { until } from '../support/until.js'
import { openBackup } from '../../lib/carry/backup/read.js'
import { throughStream, writeTo } from '../../lib/api/transfer.js'
import type { Caller } from '../../lib/access/bearer.js'
import { Refusal } from '../../lib/base/errors.js'
import type { Reply, Sink } from '../../lib/http/core/route.js'

async function deploy(
  { as }: Stage,
  project: Project,
  files: Record<string, string>,
  fields: Record<string, string> = {}
) {
  const given = Object.entries({ projectId: project.id, ...fields })
  const reply = await as(project.token).upload([...given, ['file', { filename: 'a.zip', bytes: await zipOf(files) }]])
  return reply.headers['x-svc-deploy-id'] as string
}

async function exported({ client }: Stage, query = ''): Promise<Buffer> {
  const reply = await client.open('GET', `/api/migration/export${query}`)
  const chunks: Buffer[] = []
  for await (const chunk of reply) chunks.push(chunk as Buffer)
  if (reply.statusCode !== 200) throw new Error(Buffer.concat(chunks).toString())
  return Buffer.concat(chunks)
}

function imported(
  { client }: Stage,
  bytes: Uint8Array,
  query = '',
  headers: Record<string, string> = {}
): Promise<ClientReply> {
  const { contentType, body } = formOf([['file', { filename: 'package.zip', bytes }]])
  return client.send('POST', `/api/migration/import${query}`, {
    headers: { 'content-type': contentType, ...headers },
    body
  })
}

/** Pages whose answers may differ on another server, each with the reason. */
const ofTheMachine: Record<string, string> = {
  '/api/health': 'of the process',
  '/api/openapi.json': 'of the program',
  '/install.sh': 'of the program',
  '/client.tgz': 'of the program',
  '/agent.tgz': 'of the program',
  '/api/auth/whoami': 'of the token that asks',
  '/api/deploy/check': 'of the token and the settings',
  '/api/uploads/:id': 'unfinished uploads are in no package',
  '/api/deployments/:id/plan': 'of what waits on this server, and of the target',
  '/api/deploy/base': 'of a kept archive, whose files are compared',
  '/api/health/detail': 'of the machine',
  '/api/auth/session': 'of the caller',
  '/api/sessions': 'of the browsers of this server',
  '/api/changes': 'of the process',
  '/api/settings/status': 'uptime; its counts are compared',
  '/api/audit': 'who did what on this server',
  '/api/locks': 'who has locked what on this server',
  '/api/marks': 'what waits on this server, and who has locked what',
  '/api/projects/:id/drift': 'of the target',
  '/api/projects/:id/drift/file': 'of the target',
  '/api/projects/:id/verify': 'of the target',
  '/api/projects/:id/tree': 'of the target and the history of this server',
  '/api/projects/:id/maintenance': 'of the target',
  '/api/tokens': 'rights on one server',
  '/api/signing-keys': 'rights on one server',
  '/api/deployments/:id/attestations': 'of a signed release',
  '/api/deployments/:id/attestations/:name': 'of a signed release',
  '/api/tokens/self': 'rights on one server',
  '/api/audit/checkpoint': 'of this server',
  '/api/audit/proof': 'of this server',
  '/api/audit/inclusion': 'of this server',
  '/api/audit/export': 'of this server',
  '/api/access/report': 'rights on one server',
  '/api/storage': 'of the disk; of archives only the newest is carried',
  '/api/public/telemetry/overview': 'reports that were sent to this server',
  '/api/system/resources': 'of the machine',
  '/api/system/history': 'of the machine',
  '/metrics': 'of the process',
  '/api/pm2/available': 'of the machine',
  '/api/pm2/apps': 'of the machine',
  '/api/fs/home': 'of the machine',
  '/api/fs/list': 'of the machine',
  '/api/migration/export': 'read by the import',
  '/api/backup': 'read by the restore',
  '/api/terminal/available': 'of the machine',
  '/api/terminal/ws': 'a shell',
  '/api/overview': 'uptime; what it is made of is compared',
  '/api/components': 'of lists that clients sent to this server',
  '/api/families': 'what it is made of is compared',
  '/api/settings/schema': 'of the program',
  '/api/nodes': 'of the fleet of this server',
  '/api/nodes/:node': 'of the fleet of this server',
  '/api/nodes/:node/at/*path': 'of the fleet of this server',
  '/api/nodes/:node/terminal': 'of the fleet of this server',
  '/api/enrollments': 'of the fleet of this server',
  '/api/projects/:id/placements': 'of the fleet of this server',
  '/api/rollouts': 'of the fleet of this server',
  '/api/rollouts/:rolloutId': 'of the fleet of this server',
  '/api/rollouts/:rolloutId/nodes/:node': 'of the fleet of this server',
  '/api/rollouts/:rolloutId/events': 'of the fleet of this server',
  '/api/cluster': 'of the hub',
  '/api/agent/desired': 'read by nodes of this server',
  '/api/agent/releases/:deployId': 'read by nodes of this server',
  '/api/agent/blobs/:sha256': 'read by nodes of this server',
  '/api/projects/:id/download': 'bytes of files that are compared',
  '/api/log-sources/:sourceId/download': 'bytes of files that are on both machines'
}

/** Removes comments from an event stream: progress is only sent by slow searches. */
function withoutProgress(text: string): string {
  return text.replace(/^:progress .*\n+/gm, '')
}

/** Returns every page of the API that shows imported records, by its route. */
async function pagesOf({ client, server }: Stage): Promise<Record<string, Record<string, unknown>>> {
  const pages: Record<string, Record<string, unknown>> = {}
  const routes = apiRoutes(server.services.api)
    .filter(({ method }) => method === 'GET')
    .map(({ path }) => path)
  /** The parameters of the route, in order. */
  const take = async (route: string, ids: string[] = [], query = ''): Promise<any> => {
    if (!routes.includes(route)) throw new Error(`There is no route ${route}`)
    const path = ids.reduce((path, id) => path.replace(/:\w+/, id), route) + query
    const { status, body, text } = await client.get(path)
    ;(pages[route] ??= {})[path] = { status, body: body ?? withoutProgress(text) }
    return body
  }
  const projects = (await take('/api/projects')) as Project[]
  for (const route of ['/api/categories', '/api/tags', '/api/settings', '/api/log-sources']) await take(route)
  // What waits to be sent is of this server.
  for (const target of (await take('/api/notification-targets')).items) delete target.queue
  // Its findings depend on the machine, for example whether a target exists.
  delete (await take('/api/migration/verify')).findings
  const types = 'projects,deployments,log-sources,settings'
  for (const query of ['shop', 'First', 'app.log', 'keep']) await take('/api/search', [], `?q=${query}&types=${types}`)
  for (const route of ['/api/stats/heatmap', '/api/stats/success-rate', '/api/stats/durations'])
    await take(route, [], '?days=7')
  for (const { id } of projects) {
    await take('/api/projects/:id', [id])
    await take('/api/projects/:id/variables', [id])
    await take('/api/projects/:id/recent-scripts', [id])
    await take('/api/projects/:id/overview', [id])
    await take('/api/projects/:id/pm2', [id])
    await take('/api/stats/durations', [], `?projectId=${id}`)
    await take('/api/logs', [], `?projectId=${id}`)
    for (const { name, isDir } of (await take('/api/projects/:id/files', [id])) as Array<{
      name: string
      isDir: boolean
    }>) {
      if (isDir) await take('/api/projects/:id/files', [id], `?path=${name}`)
      else await take('/api/projects/:id/file', [id], `?path=${name}`)
    }
    for (const source of ((await take('/api/projects/:id/log-sources', [id])) as { items: Array<{ id: string }> })
      .items) {
      await take('/api/log-sources/:sourceId/meta', [source.id])
      await take('/api/log-sources/:sourceId/range', [source.id])
      await take('/api/log-sources/:sourceId/search', [source.id], '?q=line')
      const stream = await openStream(client, `/api/log-sources/${source.id}/stream`)
      pages['/api/log-sources/:sourceId/stream'] = { [source.id]: (await stream.next('snapshot', 20_000)).data }
      stream.close()
    }
  }
  const deployments = (await take('/api/logs', [], '?limit=500')) as Array<{ id: string; projectId: string }>
  for (const { id, projectId } of deployments) {
    await take('/api/logs/:deployId', [id], '?timestamps=1')
    await take('/api/logs/:deployId/output', [id], '?timestamps=1')
    await take('/api/logs/:deployId/stream', [id])
    await take('/api/deployments/:id/files', [id])
    await take('/api/deployments/:id/receipt', [id])
    for (const against of deployments.filter(other => other.projectId === projectId && other.id !== id)) {
      await take('/api/deployments/:id/changes', [id], `?against=${against.id}`)
    }
  }
  await take('/api/receipts')
  const { projectCount, deploymentCount, successCount, failedCount, successRate } = await take('/api/settings/status')
  pages['/api/settings/status'] = { counts: { projectCount, deploymentCount, successCount, failedCount, successRate } }
  const missing = routes.filter(route => !(route in pages) && !(route in ofTheMachine))
  if (missing.length > 0) throw new Error(`These routes are not compared: ${missing.join(', ')}`)
  return pages
}

const ofOneMachine: ReadonlySet<string> = new Set([
  'hasArtifact',
  'artifactPath',
  'artifactSize',
  'placed',
  'ino',
  'before'
])

/**
 * Removes differences: a package contains only live archives. `placed`, inodes, and what a file has replaced belong to one
 * machine. Directories have new times.
 */
function withoutArchives(value: unknown): unknown {
  return JSON.parse(
    JSON.stringify(value, (key, field) => {
      if (ofOneMachine.has(key)) return undefined
      return field?.isDir === true ? { ...field, mtime: null } : field
    })
  )
}

/** A running clock that avoids midnight, so that two requests see the same day. */
const clock = (() => {
  const noonMs = new Date().setUTCHours(12, 0, 0, 0)
  return { now: () => noonMs + performance.now() }
})()

/** Fields that other projects here have, or only root can set. */
const ofOthers: readonly string[] = ['name', 'deployPath', 'runAs']

async function furnish(stage: Stage) {
  const { client } = stage
  await client.post('/api/notification-targets', {
    name: 'Team',
    url: 'https://hooks.example/a-secret-path',
    secret: 'a-signing-secret'
  })
  await client.put('/api/settings', {
    keep_archives: '5',
    global_deploy_token: 'a-global-token',
    webhook_secret: 'hush-hush'
  })
  const { category } = (await client.post('/api/categories', { name: 'Shops', color: 'pink', sortOrder: 3 })).body
  const tags = []
  for (const name of ['live', 'PHP']) tags.push((await client.post('/api/tags', { name })).body.tag.id)
  const shop = await stage.createProject('shop', {
    description: 'Äpfel & Birnen',
    categoryId: category.id,
    tagIds: tags,
    pm2AppName: 'shop',
    postDeployScript: 'echo done; echo späth'
  })
  const blog = await stage.createProject('blog', { tagIds: [tags[0]] })
  const idle = await stage.createProject('idle', {
    ...exampleValues(exampleFields.filter(field => !ofOthers.includes(field)))
  })
  // variables-moved.test.ts tests secrets.
  await client.put(`/api/projects/${shop.id}/variables`, {
    variables: [
      { name: 'PORT', value: '80' },
      { name: 'TEXT', value: 'a\nb' }
    ]
  })
  const log = join(stage.sites, '../app.log')
  writeFileSync(log, 'first line\nsecond line\n')
  await client.post(`/api/projects/${shop.id}/log-sources`, {
    items: [{ filePath: log, label: 'Access', kind: 'ansi' }]
  })
  const first = await deploy(stage, shop, { 'index.html': 'one', 'a/b.txt': 'b' }, { message: 'First' })
  const second = await deploy(stage, shop, { 'index.html': 'two', 'new.txt': 'n' }, { message: 'Second' })
  await client.post(`/api/deployments/${first}/rollback`)
  const failed = await deploy(stage, blog, { 'x.txt': 'x' }, { preDeploy: 'echo no >&2; exit 3' })
  return { shop, blog, idle, first, second, failed, category, tags }
}

t.test('an import into an empty data directory', async t => {
  const source = await startServer(t, { clock })
  const { shop, blog, first } = await furnish(source)
  // A file of the deployment before the rollback. The archive of the newest success does not contain it.
  rmSync(join(shop.deployPath, 'new.txt'))
  const before = await pagesOf(source)
  const bytes = await exported(source)
  const index = readFileSync(join(shop.deployPath, 'index.html'), 'utf8')
  for (const name of readdirSync(source.sites)) rmSync(join(source.sites, name), { recursive: true })

  await t.test('gives the same answers on every page of the API, and the same targets', async t => {
    const target = await startServer(t, { clock })
    const { status, body } = await imported(target, bytes, '?accessSettings=1')
    t.equal(status, 200)
    t.match(body, { success: true, strategy: 'skip-existing', dryRun: false, notes: [] })
    t.equal(body.projects.created.length, 3)
    t.equal(body.deployments.created.length, 4)
    t.strictSame(body.settings.created.sort(), ['global_deploy_token', 'keep_archives', 'webhook_secret'])
    t.match(body.notificationTargets, { created: [/^ntf_/], replaced: [], skipped: [] })
    t.match(body.brings.notificationTargets, [{ name: 'Team', address: 'https://hooks.example/…' }])
    t.match((await target.client.get('/api/notification-targets')).body.items[1], {
      name: 'Team',
      kind: 'generic',
      hasSecret: true
    })
    t.strictSame(body.artifacts, { created: [shop.id], replaced: [], skipped: [], failed: [] })
    const after = await pagesOf(target)
    t.strictSame(withoutArchives(after), withoutArchives(before))
    t.equal(readFileSync(join(shop.deployPath, 'index.html'), 'utf8'), index)
    t.strictSame(readdirSync(shop.deployPath), ['a', 'index.html'], 'the files of the archive')
    t.strictSame(readdirSync(target.home.tmp), [], 'no files are left')

    await t.test('keeps working: tokens are valid, a rollback succeeds, and a restart loses nothing', async t => {
      const [newest] = (await target.client.get(`/api/logs?projectId=${shop.id}`)).body
      t.equal(newest.hasArtifact, true, 'the newest success has its archive')
      t.equal((await target.client.post(`/api/deployments/${newest.id}/rollback`)).body.status, 'success')
      t.equal(
        (await target.client.post(`/api/deployments/${first}/rollback`)).status,
        409,
        'an older one was not carried'
      )
      await deploy(target, blog, { 'x.txt': 'x' })
      t.equal(readFileSync(join(blog.deployPath, 'x.txt'), 'utf8'), 'x')
      await target.restart()
      t.equal((await target.client.get('/api/logs')).body.length, 6)
    })

    await t.test('changes nothing the second time', async t => {
      const again = (await imported(target, bytes)).body
      t.match(again, { projects: { created: [], replaced: [] }, deployments: { created: [] }, tags: { created: [] } })
      t.strictSame(again.artifacts.skipped, [shop.id])
      t.equal(again.settings.skipped.length, 3)
    })
  })

  await t.test('reports the same in a dry run, and writes nothing', async t => {
    const target = await startServer(t)
    const { body } = await imported(target, bytes, '?dryRun=1')
    t.match(body, { success: true, dryRun: true })
    t.equal(body.deployments.created.length, 4)
    t.strictSame((await target.client.get('/api/projects')).body, [])
    t.strictSame((await target.client.get('/api/logs')).body, [])
    t.strictSame(readdirSync(target.home.deployments), [])
    t.strictSame(readdirSync(target.home.tmp), [])
  })

  await t.test('does not touch targets without restoreArtifacts, but keeps the archive', async t => {
    const target = await startServer(t)
    rmSync(shop.deployPath, { recursive: true, force: true })
    const { body } = await imported(target, bytes, '?restoreArtifacts=0')
    t.strictSame(body.settings, {
      created: ['keep_archives'],
      replaced: [],
      skipped: ['global_deploy_token', 'webhook_secret']
    })
    t.match(body.notes, [/"global_deploy_token", "webhook_secret" were left out: they control access/])
    t.match((await target.client.get('/api/settings')).body, { webhook_secret: '', global_deploy_token: '' })
    t.match(body.notificationTargets, { created: [], skipped: [/^ntf_/] })
    t.match(body.notes.join(), /notification targets were left out/)
    t.equal((await target.client.get('/api/notification-targets')).body.items.length, 1)
    t.strictSame(body.artifacts, { created: [], replaced: [], skipped: [shop.id], failed: [] })
    t.throws(() => readdirSync(shop.deployPath), { code: 'ENOENT' })
    t.equal(readdirSync(target.home.deployments).filter(name => name.endsWith('.zip')).length, 1)
  })
})

t.test('the export can be limited', async t => {
  const stage = await startServer(t)
  const { shop, blog, tags } = await furnish(stage)

  /** Returns what an import into an empty server would create. */
  async function wouldBe(t: Parameters<typeof startServer>[0], query: string) {
    const other = await startServer(t)
    const { body } = await imported(other, await exported(stage, query), '?dryRun=1')
    return body
  }

  await t.test('exports only the given projects, with their labels', async t => {
    const body = await wouldBe(t, `?projects=${blog.id}`)
    t.strictSame(body.projects.created, [blog.id])
    t.strictSame(body.tags.created, [tags[0]])
    t.strictSame(body.categories.created, [])
    t.equal(body.deployments.created.length, 1)
  })
  await t.test('exports neither records nor archives if both are excluded', async t => {
    const body = await wouldBe(t, '?logs=false&artifacts=0')
    t.equal(body.projects.created.length, 3)
    t.strictSame(body.deployments.created, [])
    t.strictSame(body.artifacts.created, [])
  })
  await t.test('exports the newest deployments of each project', async t => {
    const body = await wouldBe(t, '?recent=1')
    const newest = (await stage.client.get(`/api/logs?projectId=${shop.id}`)).body[0].id
    t.equal(body.deployments.created.length, 2)
    t.ok(body.deployments.created.includes(newest))
  })
  await t.test('an unknown project is 404, a wrong number 400', async t => {
    t.match(await stage.client.get('/api/migration/export?projects=proj_unknown'), {
      status: 404,
      body: { code: 'not_found' }
    })
    t.match(await stage.client.get('/api/migration/export?recent=few'), { status: 400, body: { field: 'recent' } })
  })
  await t.test('a link with a ticket downloads it', async t => {
    const { ticket } = (await stage.client.post('/api/tickets', { purpose: 'download' })).body
    const reply = await stage.as(null).get(`/api/migration/export?ticket=${ticket}`)
    t.equal(reply.status, 200)
    t.match(reply.headers['content-disposition'], /^attachment; filename="svc-export-[\dT-]+\.zip"$/)
  })
  await t.test('a client that disconnects leaves no files', async t => {
    const reply = await stage.client.open('GET', '/api/migration/export')
    reply.destroy()
    await once(reply, 'close')
    await until(() => readdirSync(stage.home.tmp).length === 0)
    t.pass()
  })
  await t.test('exports and imports are in the audit log, without a secret', async t => {
    await imported(stage, await exported(stage))
    const { items } = (await stage.client.get('/api/audit?limit=500')).body
    t.match(items.filter(({ action }: { action: string }) => action.startsWith('migration.'))[0], {
      action: 'migration.import',
      actor: 'admin',
      detail: /^skip-existing: 0 created, 0 replaced, \d+ skipped$/,
      ok: true
    })
    t.ok(items.some(({ action }: { action: string }) => action === 'migration.export'))
    for (const secret of [shop.token, 'a-global-token', 'hush-hush']) t.notOk(JSON.stringify(items).includes(secret))
  })
})

t.test('an import is refused', async t => {
  const stage = await startServer(t)
  const taken = await stage.createProject('taken')
  const manifest = JSON.stringify({ schemaVersion: 1 })
  const packed = (files: Record<string, unknown>) => {
    const entries = Object.entries(files).map(([name, value]) => [
      `svc-export/${name}`,
      typeof value === 'string' ? value : JSON.stringify(value)
    ])
    return zipOf({ 'svc-export/manifest.json': manifest, ...Object.fromEntries(entries) })
  }
  const project = { id: 'proj_a', name: 'A', deployPath: join(stage.sites, 'a') }
  const deployment = { id: 'dep_a', projectId: 'proj_a', status: 'success', startTime: '2026-01-31T12:00:00Z' }

  const refused: Array<[what: string, files: Record<string, unknown>, status: number, match: object]> = [
    [
      'has a newer schemaVersion',
      { 'manifest.json': { schemaVersion: 2 } },
      409,
      { code: 'newer_package', error: /schemaVersion is 2, but this svc supports at most 1/ }
    ],
    ['has no schemaVersion', { 'manifest.json': {} }, 400, { code: 'not_a_package' }],
    ['holds no JSON', { 'projects.json': '[{' }, 400, { code: 'broken_package', field: 'projects.json' }],
    ['is no list', { 'projects.json': {} }, 400, { field: 'projects.json' }],
    [
      'has a project without a name',
      { 'projects.json': [project, { ...project, id: 'proj_b', name: undefined }] },
      400,
      { field: 'projects.json[1].name' }
    ],
    [
      'has a field of a wrong type',
      { 'projects.json': [{ ...project, postDeployAsync: 'yes' }] },
      400,
      { field: 'projects.json[0].postDeployAsync' }
    ],
    [
      'has a limit below nothing',
      { 'projects.json': [{ ...project, maxDiskMb: -1 }] },
      400,
      { field: 'projects.json[0].maxDiskMb' }
    ],
    [
      'has an id that is a path',
      { 'projects.json': [project], 'deployments.json': [{ ...deployment, id: '../../config' }] },
      400,
      { field: 'deployments.json[0].id' }
    ],
    ['has an id twice', { 'projects.json': [project, project] }, 400, { field: 'projects.json[1].id' }],
    [
      'has a broken step',
      { 'projects.json': [project], 'deployments.json': [{ ...deployment, steps: [{ name: 'dance' }] }] },
      400,
      { field: 'deployments.json[0].steps[0].name' }
    ],
    [
      'has a deployment of nobody',
      { 'projects.json': [project], 'deployments.json': [{ ...deployment, projectId: 'proj_x' }] },
      400,
      { field: 'deployments.json[0].projectId' }
    ],
    [
      'has a running deployment',
      { 'projects.json': [project], 'deployments.json': [{ ...deployment, status: 'running' }] },
      400,
      { field: 'deployments.json[0].status' }
    ],
    [
      'has a setting that cannot be meant',
      { 'settings.json': { keep_archives: 'many' } },
      400,
      { field: 'keep_archives' }
    ],
    [
      'deploys to a place that may not be a target',
      { 'projects.json': [{ ...project, deployPath: '/etc' }] },
      400,
      { field: 'projects.json[0].deployPath' }
    ],
    [
      'deploys into the data directory',
      { 'projects.json': [{ ...project, deployPath: stage.home.tmp }] },
      400,
      { field: 'projects.json[0].deployPath' }
    ],
    [
      'deploys where another project does',
      { 'projects.json': [{ ...project, deployPath: join(taken.deployPath, 'below') }] },
      409,
      { code: 'clashing_projects', error: /"A" \(proj_a\).*"taken" \(proj_/ }
    ],
    [
      'has two projects in one place',
      { 'projects.json': [project, { ...project, id: 'proj_b', name: 'B' }] },
      409,
      { error: /"B" \(proj_b\).*"A" \(proj_a\)/ }
    ],
    [
      'has the token of another project',
      { 'projects.json': [{ ...project, token: taken.token }] },
      409,
      { code: 'clashing_projects' }
    ],
    [
      'has an artifact that is no zip',
      { 'projects.json': [project], 'artifacts/proj_a.zip': 'no zip' },
      400,
      { field: 'artifacts/proj_a.zip' }
    ],
    [
      'has an artifact of another SHA-256',
      {
        'manifest.json': { schemaVersion: 1, artifacts: [{ projectId: 'proj_a', sha256: 'a'.repeat(64) }] },
        'projects.json': [project],
        'artifacts/proj_a.zip': 'other'
      },
      400,
      { code: 'broken_package' }
    ]
  ]
  for (const [what, files, status, match] of refused) {
    await t.test(`because it ${what}`, async t => {
      const reply = await imported(stage, await packed(files))
      t.match(reply, { status, body: { success: false, ...match } })
      t.notMatch(reply.text, taken.token)
      t.equal((await stage.client.get('/api/projects')).body.length, 1)
    })
  }
  t.strictSame(readdirSync(stage.home.tmp), [])
  t.strictSame(readdirSync(stage.home.deployments), [])
  t.match(await imported(stage, Buffer.from('no zip')), { status: 400, body: { code: 'not_a_zip' } })
  const whole = await packed({ 'projects.json': [project] })
  t.match(await imported(stage, whole.subarray(0, whole.length - 30)), { status: 400, body: { code: 'truncated_zip' } })
  t.match(await stage.client.post('/api/migration/import', {}), { status: 415 })
  t.match(await imported(stage, whole, '?strategy=replace'), { status: 400, body: { field: 'strategy' } })
})

t.test('fields that a package omits get their defaults', async t => {
  const stage = await startServer(t)
  const deployPath = join(stage.sites, 'old')
  mkdirSync(deployPath)
  writeFileSync(join(deployPath, 'extra.txt'), 'stays')
  const bytes = await zipOf({
    'svc-export/manifest.json': JSON.stringify({ schemaVersion: 1, timestamp: '2025-01-01T00:00:00Z' }),
    'svc-export/settings.json': JSON.stringify({ max_upload_size: '77', colour_of_door: 'green' }),
    'svc-export/projects.json': JSON.stringify([
      { id: 'proj_1', name: 'Old', deployPath, tagIds: ['tag_gone'], categoryId: 'cat_gone' }
    ]),
    'svc-export/deployments.json': JSON.stringify([
      {
        id: 'dep_1',
        projectId: 'proj_1',
        status: 'success',
        startTime: '2025-01-01T00:00:00.000Z',
        output: 'one\ntwo\n'
      }
    ]),
    'svc-export/artifacts/proj_1.zip': await zipOf({ 'index.html': 'hello' })
  })
  const { status, body } = await imported(stage, bytes)
  t.equal(status, 200)
  t.equal(body.notes.length, 3, 'an unknown setting, category and tag are skipped with a note')
  const project = (await stage.client.get('/api/projects/proj_1')).body as Project
  t.match(project, {
    name: 'Old',
    env: 'production',
    tagIds: [],
    categoryId: null,
    postDeployAsync: false,
    status: 'success'
  })
  t.ok(project.token.length > 20, 'it gets a token')
  t.match((await stage.client.get('/api/logs/dep_1')).body, {
    output: 'one\ntwo\n',
    projectName: 'Old',
    triggerSource: 'cli',
    hasArtifact: false
  })
  t.equal(
    (await stage.client.get('/api/logs/dep_1/output?timestamps=1')).text,
    '2025-01-01T00:00:00.000Z one\n2025-01-01T00:00:00.000Z two\n'
  )
  t.equal((await stage.client.get('/api/settings')).body.max_upload_size, '77')
  t.strictSame(readdirSync(deployPath).sort(), ['extra.txt', 'index.html'], 'extraction deletes nothing')
  await deploy(stage, project, { 'index.html': 'new' })
  t.equal(readFileSync(join(deployPath, 'index.html'), 'utf8'), 'new')
})

t.test('overwrite', async t => {
  const stage = await startServer(t, { clock })
  const { shop, blog, idle, first, category } = await furnish(stage)
  const bytes = await exported(stage)
  const before = await pagesOf(stage)

  await t.test('is refused without the header, before the body is read', async t => {
    t.match(await imported(stage, bytes, '?strategy=overwrite'), { status: 400, body: { code: 'confirmation_needed' } })
    t.match(await imported(stage, bytes, '?strategy=overwrite', { 'x-confirm-overwrite': 'maybe' }), { status: 400 })
  })

  await t.test('restores every record, and keeps records that are not in the package', async t => {
    await stage.client.put(`/api/projects/${shop.id}`, { name: 'Changed', tagIds: [], categoryId: null })
    await stage.client.post(`/api/projects/${shop.id}/token`)
    await stage.client.put(`/api/categories/${category.id}`, { name: 'Stores' })
    await stage.client.put('/api/settings', { keep_archives: '9' })
    await stage.client.patch(`/api/deployments/${first}/status`, { status: 'failed' })
    // Two projects that have exchanged their targets must not block each other.
    await stage.client.put(`/api/projects/${blog.id}`, { deployPath: join(stage.sites, 'other') })
    await stage.client.put(`/api/projects/${idle.id}`, { deployPath: blog.deployPath })
    await stage.client.put(`/api/projects/${blog.id}`, { deployPath: idle.deployPath })
    const later = await stage.createProject('later')
    writeFileSync(join(shop.deployPath, 'index.html'), 'spoilt')
    const { status, body } = await imported(stage, bytes, '?strategy=overwrite', { 'x-confirm-overwrite': 'yes' })
    t.equal(status, 200, body.error)
    t.equal(body.projects.replaced.length, 3)
    t.equal(body.deployments.replaced.length, 4)
    t.strictSame(body.artifacts.replaced, [shop.id])
    t.equal((await stage.client.get(`/api/projects/${later.id}`)).status, 200)
    await stage.client.delete(`/api/projects/${later.id}`)
    t.strictSame(withoutArchives(await pagesOf(stage)), withoutArchives(before))
    t.equal(readFileSync(join(shop.deployPath, 'index.html'), 'utf8'), 'one')
  })
})

t.test('a target without an archive is packed without ignored files', async t => {
  const stage = await startServer(t)
  const project = await stage.createProject('found')
  mkdirSync(join(project.deployPath, 'node_modules'), { recursive: true })
  for (const name of ['index.html', 'debug.log', 'secret.key', 'node_modules/x.js'])
    writeFileSync(join(project.deployPath, name), name)
  const bytes = await exported(stage, '?ignore=*.key')
  const all = await exported(stage, '?ignoreBuiltin=false')
  rmSync(project.deployPath, { recursive: true })
  await t.test('by builtin and given patterns', async t => {
    await imported(await startServer(t), bytes)
    t.strictSame(readdirSync(project.deployPath), ['index.html'])
  })
  await t.test('or without builtin patterns', async t => {
    await imported(await startServer(t), all)
    t.strictSame(readdirSync(project.deployPath).sort(), ['debug.log', 'index.html', 'node_modules', 'secret.key'])
  })
})

t.test('no file gets the rights of its owner or another owner from a package', async t => {
  const stage = await startServer(t)
  const shop = await stage.createProject('shop')
  const [first, second] = [await deploy(stage, shop, { a: 'one', b: 'one' }), await deploy(stage, shop, { a: 'two' })]
  const { client, home } = stage
  const records = {
    'projects.json': [await client.get(`/api/projects/${shop.id}`).then(({ body }) => body)],
    'deployments.json': await Promise.all([first, second].map(async id => (await client.get(`/api/logs/${id}`)).body))
  }
  const hostile = Object.fromEntries(
    [first, second].map(id => {
      const text = readFileSync(join(home.deployments, `${id}.manifest`), 'utf8').replace(
        /"mode":\d+/g,
        `"mode":${0o106755}`
      )
      return [`manifests/${id}.manifest`, text]
    })
  )
  const entries = { 'manifest.json': '{"schemaVersion":1}', ...hostile }
  const json = Object.entries(records).map(([name, value]) => [name, JSON.stringify(value)] as const)
  const bytes = await zipOf(
    Object.fromEntries([...Object.entries(entries), ...json].map(([name, text]) => [`svc-export/${name}`, text]))
  )
  const { status, body } = await imported(stage, bytes, '?strategy=overwrite', { 'x-confirm-overwrite': 'yes' })
  t.equal(status, 200)
  t.strictSame(body.deployments.replaced.sort(), [first, second].sort())
  const third = await deploy(stage, shop, { c: 'three' })
  await deploy(stage, shop, { a: 'four', b: 'four' })
  for (const path of ['a', 'b']) chmodSync(join(shop.deployPath, path), 0o600)
  const exact = await client.post(`/api/deployments/${third}/rollback`, { mode: 'exact', force: true })
  t.match(exact.body, { status: 'success' })
  t.strictSame(
    ['a', 'b'].map(path => (statSync(join(shop.deployPath, path)).mode & 0o7777).toString(8)),
    ['755', '755'],
    'the other permissions are those of the lists'
  )
})

t.test('labels with the same name are merged, whatever their ids', async t => {
  const source = await startServer(t)
  const { shop } = await furnish(source)
  const bytes = await exported(source, `?projects=${shop.id}&artifacts=0`)
  await t.test('the project gets the existing labels', async t => {
    const target = await startServer(t)
    const { category } = (await target.client.post('/api/categories', { name: 'shops' })).body
    const { tag } = (await target.client.post('/api/tags', { name: 'php' })).body
    const { body } = await imported(target, bytes)
    t.strictSame(body.categories.skipped, [category.id])
    const project = (await target.client.get(`/api/projects/${shop.id}`)).body as Project
    t.equal(project.categoryId, category.id)
    t.ok(project.tagIds.includes(tag.id))
    t.equal(project.tagIds.length, 2)
  })
})

t.test('verify returns the content of the database and a finding for each check', async t => {
  const { client, createProject } = await startServer(t)
  const { id } = await createProject('shop')
  const { status, body } = await client.get('/api/migration/verify')
  t.equal(status, 200)
  t.match(body, { missingTables: [], deploymentCount: 0, orphans: [] })
  t.match(body.findings, [
    { check: 'database', level: 'ok' },
    { check: 'deployments', level: 'ok' },
    { check: 'deployPath', level: 'warning', id, next: /first deployment/ }
  ])
})

t.test('a package contains the live files even if their deployment failed', async t => {
  const stage = await startServer(t, { clock })
  const shop = await stage.createProject('shop')
  const push = async (text: string, postDeploy: string): Promise<string> => {
    const file = { filename: 'a.zip', bytes: await zipOf({ 'index.html': text }) }
    const reply = await stage.as(shop.token).upload([
      ['projectId', shop.id],
      ['postDeploy', postDeploy],
      ['file', file]
    ])
    return reply.headers['x-svc-deploy-id'] as string
  }
  const good = await push('good', 'true')
  const live = await push('live', 'exit 1')
  const bytes = await exported(stage)

  /** Imports the package into a new server. */
  async function importedRows(t: Test, bytes: Buffer): Promise<unknown[]> {
    const target = await startServer(t, { clock })
    writeFileSync(join(shop.deployPath, 'index.html'), 'gone')
    await imported(target, bytes, '?accessSettings=1')
    const rows = (await target.client.get('/api/logs')).body as Array<{
      id: string
      hasArtifact: boolean
      placed: number | null
    }>
    return rows.map(({ id, hasArtifact, placed }) => [id, hasArtifact, placed])
  }
  await t.test('restores the archive', async t => {
    t.strictSame(await importedRows(t, bytes), [
      [live, true, 1],
      [good, false, null]
    ])
    t.equal(readFileSync(join(shop.deployPath, 'index.html'), 'utf8'), 'live')
  })
  await t.test('restores the target if the archive is gone', async t => {
    writeFileSync(join(shop.deployPath, 'index.html'), 'live, and changed')
    rmSync(join(stage.home.deployments, `${live}.zip`))
    const packed = await exported(stage)
    t.strictSame(await importedRows(t, packed), [
      [live, false, null],
      [good, false, null]
    ])
    t.equal(readFileSync(join(shop.deployPath, 'index.html'), 'utf8'), 'live, and changed')
  })
})

t.test(
  'an import over a project on nodes changes its record, and leaves its nodes and the directory here alone',
  async t => {
    const stage = await startServer(t)
    const shop = await stage.createProject('shop')
    await deploy(stage, shop, { 'index.html': 'one' })
    const bytes = await exported(stage, '?artifacts=1')
    await stage.client.put(`/api/projects/${shop.id}`, { description: 'changed since' })
    writeFileSync(join(shop.deployPath, 'index.html'), 'of somebody else')
    await enrolledAgent({ url: stage.url, hub: await stage.server.services.fleet.hub() }, 'n1')
    const place = { add: [{ node: 'n1', deployPath: '/srv/shop' }], remove: [] }
    t.equal((await stage.client.patch(`/api/projects/${shop.id}/placements`, place)).status, 200)
    const { status, body } = await imported(stage, bytes, '?strategy=overwrite', { 'x-confirm-overwrite': 'yes' })
    t.equal(status, 200)
    t.match(body.result ?? body, {
      artifacts: { replaced: [], failed: [{ id: shop.id, error: /its files are on the nodes/ }] }
    })
    t.equal((await stage.client.get(`/api/projects/${shop.id}`)).body.description, '')
    t.match((await stage.client.get(`/api/projects/${shop.id}/placements`)).body.placements, [
      { nodeName: 'n1', deployPath: '/srv/shop' }
    ])
    t.equal(readFileSync(join(shop.deployPath, 'index.html'), 'utf8'), 'of somebody else')
  }
)

t.test('a backup is sent as a zip, and only to the operator of this machine', async t => {
  const { client, home, url, sites } = await startServer(t)
  const overNetwork = await client.get('/api/backup')
  t.not(overNetwork.status, 200, 'the admin token does not allow it over the network')
  const { withLocalApi } = await import('../../lib/cli/client/opened.js')
  const context = { env: {}, output: { warn: () => {} } } as unknown as Parameters<typeof withLocalApi>[0]
  const path = join(sites, 'backup.zip')
  await withLocalApi(context, home, async ({ client, isServerRunning }) => {
    t.ok(isServerRunning, url)
    const pieces: Buffer[] = []
    const answer = await client.open({ path: '/api/backup', accept: 'application/zip', answerLimitMs: 60_000 })
    t.equal(answer.headers['content-type'], 'application/zip')
    for await (const piece of answer) pieces.push(piece)
    writeFileSync(path, Buffer.concat(pieces))
  })
  await t.rejects(openBackup(path), { code: /^backup_|^not_a_backup/ }, '"svc backup" adds the seal')
})

const local = { role: 'local' } as Caller

/** Returns all bytes that a streaming reply writes. */
async function linesOf(reply: Reply): Promise<object[]> {
  if (reply.kind !== 'stream') throw new Error(`A reply of the kind "${reply.kind}"`)
  const pieces: string[] = []
  const sink = { write: async (piece: string) => void pieces.push(piece), sendHead() {}, signal: signal() }
  await reply.run(sink as Sink)
  return pieces
    .join('')
    .trim()
    .split('\n')
    .map(line => JSON.parse(line) as object)
}

const signal = (): AbortSignal => new AbortController().signal
const never = async (): Promise<object> => {
  throw new Error('It was called')
}

t.test('writes to an empty file and reports progress', async t => {
  const path = join(t.testdir({}), 'out')
  writeFileSync(path, '')
  const work = async (
    file: FileHandle,
    { onBegin, onProgress }: { onBegin(n: number): void; onProgress(n: number): void }
  ) => {
    onBegin(4)
    onProgress(2)
    onProgress(3)
    await file.write('four')
    return { files: 1 }
  }
  t.same(await linesOf(await writeTo(path, local, work)), [
    { event: 'begin', expectedBytes: 4 },
    { event: 'progress', bytes: 2 },
    { event: 'done', files: 1 }
  ])
  t.equal(readFileSync(path, 'utf8'), 'four')
})

t.test('a refusal becomes an error line, a bug does not', async t => {
  const path = join(t.testdir({}), 'out')
  writeFileSync(path, '')
  const refuse = async (): Promise<object> => {
    throw new Refusal('conflict', 'busy', 'Cannot do it')
  }
  t.match(await linesOf(await writeTo(path, local, refuse)), [{ event: 'error', error: /Cannot do it/ }])
  const bug = async (): Promise<object> => {
    throw new TypeError('a bug')
  }
  await t.rejects(linesOf(await writeTo(path, local, bug)), TypeError)
})

t.test('only the operator on this machine may name a file, which must be empty and not a link', async t => {
  const directory = t.testdir({ full: 'x', folder: {}, empty: '', link: t.fixture('symlink', 'empty') })
  await t.rejects(writeTo('/tmp/any', { role: 'admin' } as Caller, never), { code: 'forbidden' })
  for (const name of ['full', 'folder', 'none', 'link']) {
    const reply = await writeTo(join(directory, name), local, never)
    await t.rejects(linesOf(reply), { code: 'cannot_write_there' }, name)
  }
  await t.rejects(linesOf(await writeTo('relative', local, never)), { code: 'cannot_write_there' })
})

t.test('throughStream resolves when the sink has taken everything, and rejects if the client disconnects', async t => {
  const pieces: string[] = []
  const slow = { write: async (piece: Uint8Array) => void pieces.push(String(piece)), sendHead() {}, signal: signal() }
  await throughStream(slow as unknown as Sink, async out => {
    out.write('a')
    out.write('b')
  })
  t.same(pieces, ['a', 'b'])
  const gone = {
    ...slow,
    write: async () => {
      throw new Error('gone')
    }
  }
  await t.rejects(
    throughStream(gone as unknown as Sink, async out => void out.write('a')),
    { message: 'gone' }
  )
})
