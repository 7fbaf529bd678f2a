/*
 * Writes what a release writes, for test/server/releases.test.ts:
 *
 *   node dist/test/support/write-release-fixture.js [version]
 *
 * Run it once for each release, after the version in package.json is the released one. A real server fills a data
 * directory through the API; then `test/fixtures/<version>/` contains the data directory as it is after a kill
 * (`killed.tgz`, with its redo log) and after a stop (`stopped.tgz`), a backup (`backup.zip`), an export package
 * (`export.zip`), and what the API had answered (`contents.json`). A fixture of an earlier release is never rewritten.
 */
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createClient, type Client } from './client.js'
import { contentsOf } from './release-contents.js'
import { startServed, type Served } from './served.js'
import { svc, svcPath } from './svc.js'
import { zipOf } from './zip.js'

const top = fileURLToPath(new URL('../../../', import.meta.url))
const described = JSON.parse(readFileSync(join(top, 'package.json'), 'utf8')) as { version: string }
const version = process.argv[2] ?? described.version
if (version !== described.version)
  console.warn(`package.json has the version ${described.version}, not ${version}: run this again after it is released`)

const directory = mkdtempSync(join(tmpdir(), 'svc-release-'))
const home = join(directory, 'home')
const fixture = join(top, 'test/fixtures', version)

function start(): Promise<Served> {
  return startServed({
    command: [process.execPath, svcPath, 'serve', '--port', '0'],
    cwd: directory,
    env: { PATH: process.env['PATH'] as string, HOME: directory, SVC_HOME: home }
  })
}

/** Throws unless the response is a success. */
async function done<T>(answer: Promise<{ status: number; text: string; body: any }>): Promise<T> {
  const { status, text, body } = await answer
  if (status !== 200) throw new Error(`${status}: ${text}`)
  return body as T
}

interface MadeProject {
  project: { id: string; token: string }
}

async function deploy(
  url: string,
  { project }: MadeProject,
  files: Record<string, string>,
  fields: Record<string, string> = {}
): Promise<string> {
  const bytes = await zipOf(files)
  const answer = await createClient(() => url, project.token).upload([
    ['projectId', project.id],
    ...Object.entries(fields),
    ['file', { filename: 'site.zip', bytes }]
  ])
  return /dep_[a-z0-9]{16}/.exec(answer.text)?.[0] as string
}

/** Uploads as "svc push" does. */
const provenance = JSON.stringify({
  source: 'cli',
  commit: '8f1d3c2b7a6e5d4c3b2a19080706050403020100',
  branch: 'main',
  author: 'Ada',
  subject: 'First version',
  dirty: false,
  repository: 'https://git.example.org/shop',
  ci: { system: 'Woodpecker', run: '17', url: 'https://ci.example.org/17', actor: 'ada' }
})

/** Creates one of everything that a data directory can contain. */
async function fill(url: string, client: Client): Promise<void> {
  const { category } = await done<any>(client.post('/api/categories', { name: 'Shops', color: 'blue' }))
  const { tag } = await done<any>(client.post('/api/tags', { name: 'public', color: 'green' }))
  const shop = await done<MadeProject>(
    client.post('/api/projects', {
      name: 'storefront',
      description: 'The shop: 商店',
      deployPath: join(directory, 'www/storefront'),
      env: 'production',
      categoryId: category.id,
      tagIds: [tag.id]
    })
  )
  const scripts = {
    preDeployScript: 'echo before',
    postDeployScript: 'echo "after $SVC_DEPLOY_MODE"',
    maxDiskMb: 100,
    allowedEnv: ['APP_*']
  }
  await done(client.put(`/api/projects/${shop.project.id}`, scripts))
  await done(client.put(`/api/projects/${shop.project.id}/pin`, { pinned: true }))
  const docs = await done<MadeProject>(
    client.post('/api/projects', { name: 'handbook', deployPath: join(directory, 'www/handbook') })
  )

  const first = await deploy(
    url,
    shop,
    { 'index.html': 'first', 'assets/app.js': 'let version = 1' },
    { message: 'First version', provenance }
  )
  await deploy(
    url,
    shop,
    { 'index.html': 'second', 'assets/app.js': 'let version = 2' },
    { message: 'Second version', env: '{"APP_MODE": "test"}' }
  )
  await deploy(url, docs, { 'index.html': 'handbook' }, { postDeploy: 'echo broken >&2; exit 3' })
  await done(client.post(`/api/deployments/${first}/rollback`, { message: 'Back to the first version' }))

  const log = join(directory, 'www/access.log')
  writeFileSync(log, '2026-01-31T12:00:00Z GET /\n')
  await done(
    client.post(`/api/projects/${shop.project.id}/log-sources`, { items: [{ label: 'Access log', filePath: log }] })
  )
  await done(
    client.put('/api/settings', { keep_archives: '7', webhook_events: 'deploy_failure', script_timeout: '600' })
  )
  await done(
    client.put(`/api/projects/${shop.project.id}/variables`, {
      variables: [
        { name: 'API_URL', value: 'https://api.example.org', secret: false },
        { name: 'DB_PASSWORD', value: 'correct horse', secret: true }
      ]
    })
  )
  await done(
    client.post('/api/notification-targets', {
      name: 'Operations',
      url: 'https://chat.example.org/hook',
      events: ['deploy_failure'],
      enabled: false
    })
  )
  const policy = { prune: 'managed', protect: ['uploads/**'], fileMode: '640', onFailureScript: 'echo failed' }
  await done(client.put(`/api/projects/${docs.project.id}`, { policy }))
  await done(client.post('/api/tokens', { name: 'pipeline', role: 'deployer', projectIds: [shop.project.id] }))
  await client.post('/api/auth/login', { token: 'a wrong token' })
}

/** Packs the data directory into an archive that is the same for the same contents. */
function archive(name: string): void {
  execFileSync('tar', [
    '--sort=name',
    '--owner=0',
    '--group=0',
    '--numeric-owner',
    '--exclude=*.sock',
    '-czf',
    join(fixture, name),
    '-C',
    home,
    '.'
  ])
}

async function command(...words: string[]): Promise<void> {
  const { code, stderr } = await svc(words, { cwd: directory, env: { SVC_HOME: home } })
  if (code !== 0) throw new Error(`svc ${words.join(' ')}: ${stderr}`)
}

try {
  rmSync(fixture, { recursive: true, force: true })
  mkdirSync(fixture, { recursive: true })
  const first = await start()
  const client = createClient(() => first.url, first.adminToken)
  await fill(first.url, client)
  const contents = await contentsOf(client)
  await command('export', '--out', join(fixture, 'export.zip'))
  await command('backup', join(fixture, 'backup.zip'))
  first.kill()
  await first.stop()
  archive('killed.tgz')
  const second = await start()
  await second.stop()
  archive('stopped.tgz')
  writeFileSync(
    join(fixture, 'contents.json'),
    `${JSON.stringify({ directory, adminToken: first.adminToken, contents }, null, 1)}\n`
  )
  console.log(execFileSync('du', ['-a', '--apparent-size', '-k', fixture], { encoding: 'utf8' }))
} finally {
  rmSync(directory, { recursive: true, force: true })
}
