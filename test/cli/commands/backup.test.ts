import t from 'tap'
import { execFile, execFileSync, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync
} from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { type Backup, openBackup } from '../../../lib/carry/backup/read.js'
import { locateHome } from '../../../lib/base/config/home.js'
import type { Project } from '../../../lib/model/project.js'
import { serve } from '../../../lib/server/serve.js'
import { readVersion } from '../../../lib/base/config/version.js'
import { openStore } from '../../../lib/core/store/durable-store.js'
import { deploymentStates } from '../../../lib/core/store/tables/deployments.js'
import { listProjects } from '../../../lib/core/store/tables/projects.js'
import { apiPages } from '../../support/api-pages.js'
import { forgeBackup, smallHome } from '../../support/backup.js'
import { createClient } from '../../support/client.js'
import { startServe, startServeProcess } from '../../support/serve-process.js'
import { serveShop } from '../../support/shop.js'
import { adminToken, startServer } from '../../support/server.js'
import { smallDisk } from '../../support/small-disk.js'
import { bareEnvironment, svc, svcPath } from '../../support/svc.js'
import { repetitions } from '../../support/thorough.js'
import { snapshot } from '../../support/tree.js'
import { until } from '../../support/until.js'
import { zipOf } from '../../support/zip.js'

/** All of a backup, checked, and closed again. */
async function look<T>(path: string, use: (backup: Backup) => T | Promise<T>): Promise<T> {
  const backup = await openBackup(path)
  try {
    await backup.readAll({})
    return await use(backup)
  } finally {
    backup.close()
  }
}

t.test('creates a backup that contains the data directory', async t => {
  const cwd = t.testdir({ vault: {} })
  const server = await startServe(t, cwd)
  const env = { SVC_HOME: server.home }
  const project = await server.createProject({ name: 'shop', deployPath: join(cwd, 'www') })
  const { deployId, finished } = await server.upload(project, { 'index.html': 'one' })
  await finished
  mkdirSync(join(server.home, 'pm2'))
  writeFileSync(join(server.home, 'pm2/out.log'), 'svc listens\n')
  symlinkSync('/etc/hostname', join(server.home, 'elsewhere'))
  writeFileSync(join(server.home, 'deployments/dep_aaaaaaaaaaaaaaaa.undo'), 'svc-undo 1\n')
  const path = join(cwd, 'vault/svc.zip')

  await t.test('only the owner can read the backup, and temporary files are not in it', async t => {
    const { code, stdout, stderr } = await svc(['backup', 'vault/svc.zip'], { cwd, env })
    t.equal(code, 0, stderr)
    t.equal(stdout, `${path}\n`)
    t.match(
      stderr,
      /^Backing up…\nChecking…\nBacked up 1 project, 1 deployment, 8 files: .* in .*, read back and verified\n/
    )
    t.match(stderr, /warning: "elsewhere" was left out: it is a symbolic link/)
    t.equal(statSync(path).mode & 0o777, 0o600, 'it holds tokens')
    t.strictSame(readdirSync(join(cwd, 'vault')), ['svc.zip'])
    t.strictSame(readdirSync(join(server.home, 'tmp')), [], 'nothing is left in the data directory')
    await look(path, ({ files, summary, database }) => {
      const paths = files.map(({ path }) => path)
      const ofDeployment = ['log', 'manifest', 'zip'].map(ending => `deployments/${deployId}.${ending}`)
      t.strictSame(paths, [
        'svc.db',
        'config.json',
        'keys/server.ed25519',
        'keys/server.pub',
        'pm2/out.log',
        ...ofDeployment
      ])
      t.match(summary, { version: readVersion(), directory: server.home, host: String })
      t.match(database, { projects: [{ name: 'shop' }], deployments: 1, missingArchives: [] })
    })
    rmSync(join(server.home, 'deployments/dep_aaaaaaaaaaaaaaaa.undo'))
  })

  await t.test('an existing file is kept without --force, and with --force until the new one is complete', async t => {
    const before = readFileSync(path)
    const { code, stderr } = await svc(['backup', 'vault/svc.zip'], { cwd, env })
    t.equal(code, 1)
    t.match(
      stderr,
      /^error: Nothing was backed up: ".*svc\.zip" already exists\. Choose another name, or use --force to replace it\n$/
    )
    t.ok(readFileSync(path).equals(before))
    const forced = await svc(['backup', 'vault/svc.zip', '--force', '--json'], { cwd, env })
    t.equal(forced.code, 0, forced.stderr)
    t.match(JSON.parse(forced.stdout), {
      path,
      fileBytes: statSync(path).size,
      files: 8,
      schemaVersion: Number,
      createdAt: String
    })
    t.notOk(readFileSync(path).equals(before))
  })

  await t.test('refuses an unusable place and gives the reason', async t => {
    const table: Array<[file: string, code: number, sentence: RegExp]> = [
      [join(server.home, 'backup.zip'), 2, /it is inside the data directory/],
      [join(server.home, 'deployments/backup.zip'), 2, /it is inside the data directory/],
      ['nowhere/backup.zip', 2, /directory not found: ".*nowhere"/],
      ['vault', 2, /it is a directory/]
    ]
    for (const [file, code, sentence] of table) {
      const ended = await svc(['backup', file], { cwd, env })
      t.equal(ended.code, code, file)
      t.match(ended.stderr, sentence)
      t.notOk(existsSync(join(server.home, 'backup.zip')))
    }
  })

  await t.test('a backup on standard output has the same contents', async t => {
    const run = promisify(execFile)
    const program = new URL('../../../../bin/svc.js', import.meta.url).pathname
    const options = { cwd, env: { ...process.env, ...env }, encoding: 'buffer', maxBuffer: 64 * 1024 * 1024 } as const
    const { stdout } = await run(process.execPath, [program, 'backup', '-'], options)
    writeFileSync(join(cwd, 'vault/piped.zip'), stdout)
    await look(join(cwd, 'vault/piped.zip'), ({ files }) => t.equal(files.length, 8))
    const { code, stdout: said } = await svc(['restore', '--check', 'vault/piped.zip'], { cwd })
    t.equal(code, 0)
    t.match(said, /1 project, 1 deployment, 8 files/)
  })

  await t.test('the network API refuses a backup', async t => {
    const reply = await fetch(`${server.url}/api/backup`, { headers: { authorization: `Bearer ${server.adminToken}` } })
    t.equal(reply.status, 403)
  })

  await t.test('without a server, the directory itself is backed up', async t => {
    await server.stop()
    const { code, stderr } = await svc(['backup', 'vault/offline.zip'], { cwd, env })
    t.equal(code, 0, stderr)
    await look(join(cwd, 'vault/offline.zip'), ({ database }) =>
      t.match(database, { projects: [{ name: 'shop' }], deployments: 1 })
    )
    t.notOk(readdirSync(server.home).includes('svc.sock'), 'it let go of the directory')
  })

  await t.test('creates no data directory if there is none', async t => {
    const { code, stderr } = await svc(['backup', 'vault/none.zip'], { cwd, env: { SVC_HOME: join(cwd, 'none') } })
    t.equal(code, 1)
    t.match(stderr, /error: There is nothing to back up: no database found in "/)
    t.notOk(existsSync(join(cwd, 'none')))
    t.notOk(existsSync(join(cwd, 'vault/none.zip')))
  })

  await t.test('the next start removes the files of a killed backup', async t => {
    const left = join(server.home, 'tmp', `${'a'.repeat(43)}.backup`)
    mkdirSync(left)
    writeFileSync(join(left, 'svc.db'), '')
    await startServe(t, cwd)
    // The server listens before it has tidied up; this waits until it has.
    await svc(['verify'], { cwd, env })
    t.notOk(existsSync(left))
  })
})

t.test('while others write, it has every write that was acknowledged before, and every record its files', async t => {
  const cwd = t.testdir({})
  const server = await startServe(t, cwd)
  await server.api('PUT', '/api/settings', { keep_archives: '1' })
  const shop = await server.createProject({ name: 'shop', deployPath: join(cwd, 'www') })
  const acknowledged = { projects: [shop.id], deployments: [] as string[] }
  let isOver = false
  const createOnes = async (): Promise<void> => {
    for (let n = 0; !isOver; n++) {
      const { id } = await server.createProject({ name: `p${n}`, deployPath: join(cwd, `p${n}`) })
      acknowledged.projects.push(id)
    }
  }
  // Each success makes the archive of the one before it go.
  const deployOnes = async (): Promise<void> => {
    for (let n = 0; !isOver; n++) {
      const { deployId, finished } = await server.upload(shop, {
        'index.html': `${n} ${randomBytes(2000).toString('hex')}`
      })
      await finished
      acknowledged.deployments.push(deployId)
    }
  }
  const writing = Promise.all([createOnes(), deployOnes()])
  for (let round = 0; round < 2; round++) {
    const before = { projects: [...acknowledged.projects], deployments: [...acknowledged.deployments] }
    const path = join(cwd, `${round}.zip`)
    const { code, stderr } = await svc(['backup', path, '--json'], { cwd, env: { SVC_HOME: server.home } })
    t.equal(code, 0, stderr)
    const directory = join(cwd, `home-${round}`)
    const restored = await svc(['restore', path], { cwd, env: { SVC_HOME: directory } })
    t.equal(restored.code, 0, restored.stderr)
    const store = await openStore({ directory })
    const projects = new Set(listProjects(store).map(({ id }) => id))
    const states = deploymentStates(store)
    await store.close()
    t.ok(
      before.projects.every(id => projects.has(id)),
      `${before.projects.length} projects`
    )
    t.ok(
      before.deployments.every(id => states.some(state => state.id === id)),
      `${before.deployments.length} deployments`
    )
    const names = readdirSync(join(directory, 'deployments'))
    const expected = states.flatMap(({ id, isOver, hasArtifact }) => [
      `${id}.log`,
      ...(isOver ? [`${id}.manifest`] : []),
      ...(hasArtifact ? [`${id}.zip`] : [])
    ])
    t.strictSame(
      expected.filter(name => !names.includes(name)),
      [],
      'every record has its files'
    )
    for (const { id } of states.filter(({ isOver }) => isOver)) {
      t.match(
        readFileSync(join(directory, 'deployments', `${id}.log`), 'utf8'),
        /✓ success in [\d.]+s\n$/,
        'a whole output'
      )
    }
  }
  isOver = true
  await writing
  t.ok(acknowledged.deployments.length > 1)
})

t.test(
  'an output that is being written is cut at the moment, and the deployment has failed after the restore',
  async t => {
    const cwd = t.testdir({})
    const server = await startServeProcess(t, cwd)
    const project = await server.createProject({ name: 'shop', deployPath: join(cwd, 'www') })
    const script = 'i=0; while [ $i -lt 3000 ]; do echo "line $i"; i=$((i+1)); sleep 0.005; done'
    const upload = await server.upload(project, { 'index.html': 'one' }, { postDeploy: script })
    void upload.finished.catch(() => {})
    await until(async () => (await server.deployments(project.id)).some(({ output }) => output.includes('line 5')))
    const { code, stderr } = await svc(['backup', 'a.zip'], { cwd, env: { SVC_HOME: server.home } })
    t.equal(code, 0, stderr)
    await server.stop('SIGKILL')
    const home = join(cwd, 'restored')
    t.equal((await svc(['restore', 'a.zip'], { cwd, env: { SVC_HOME: home } })).code, 0)
    const again = await startServe(t, cwd, [], { SVC_HOME: home })
    const [deployment] = await again.deployments(project.id)
    t.match(deployment, {
      id: upload.deployId,
      status: 'failed',
      errorMessage: /restarted before the result of the deployment was recorded/
    })
    t.match(
      deployment?.output,
      /line \d+\n→ the files of this deployment stay in place; .*\n✗ The server was restarted before the result of the deployment was recorded/
    )
  }
)

t.test('a disk that fills up leaves nothing behind, and says so', async t => {
  const disk = smallDisk(t, 3 * 1024 * 1024)
  if (disk === null) return
  const cwd = t.testdir({})
  const server = await startServe(t, cwd)
  const env = { SVC_HOME: server.home }
  const project = await server.createProject({ name: 'shop', deployPath: join(cwd, 'www') })
  await (await server.upload(project, { 'large.bin': randomBytes(4 * 1024 * 1024).toString('base64') })).finished
  const sentence =
    /^Backing up…\nerror: Nothing was backed up: no space left on device at ".*a\.zip\..*\.part"\. Free some space, or choose another (?:place|path)\n$/
  const { code, stderr } = await svc(['backup', join(disk, 'a.zip')], { cwd, env })
  t.equal(code, 1)
  t.match(stderr, sentence)
  t.strictSame(readdirSync(disk), [])
  t.strictSame(readdirSync(join(server.home, 'tmp')), [])
  t.match(await server.api<Project[]>('GET', '/api/projects'), [{ id: project.id }], 'the server goes on')
  appendFileSync(join(disk, 'ballast'), Buffer.alloc(1024))
})

/** Goes on like any other, but no midnight comes between two looks at the figures of a day. */
const clock = (() => {
  const noonMs = new Date().setUTCHours(12, 0, 0, 0)
  return { now: () => noonMs + performance.now() }
})()

/** Returns an answer without the item of this id, and without the entries of the log that a search shows: the newest. */
function withoutItem(value: unknown, id: string): unknown {
  if (Array.isArray(value)) return value.filter(each => each?.id !== id).map(each => withoutItem(each, id))
  if (typeof value !== 'object' || value === null) return value
  if ((value as { type?: string }).type === 'audit') return null
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, withoutItem(one, id)]))
}

t.test('a restored server is the same on every page of the API', async t => {
  const stage = await startServer(t, { clock })
  const { client, home } = stage
  const { tag } = (await client.post('/api/tags', { name: 'live' })).body
  const shop = await stage.createProject('shop', { tagIds: [tag.id], postDeployScript: 'echo done; echo späth' })
  const blog = await stage.createProject('blog')
  await client.put('/api/settings', { keep_archives: '5', webhook_secret: 'hush-hush' })
  const log = join(stage.sites, '../app.log')
  writeFileSync(log, 'first line\nsecond line\n')
  await client.post(`/api/projects/${shop.id}/log-sources`, { items: [{ filePath: log, label: 'Access' }] })
  const push = async (
    project: { id: string; token: string },
    text: string,
    fields: Array<[string, string]> = []
  ): Promise<void> => {
    const file = { filename: 'a.zip', bytes: await zipOf({ 'index.html': text }) }
    await stage.as(project.token).upload([['projectId', project.id], ...fields, ['file', file]])
  }
  await push(shop, 'one')
  await push(shop, 'two')
  await push(blog, 'x', [['preDeploy', 'exit 3']])
  const cwd = join(stage.sites, '../elsewhere')
  mkdirSync(cwd)
  const { code, stderr } = await svc(['backup', 'all.zip'], { cwd, env: { SVC_HOME: home.directory } })
  t.equal(code, 0, stderr)
  const before = await apiPages(stage)
  t.ok(Object.keys(before).length > 40)

  const directory = join(cwd, 'below/home')
  const restored = await svc(['restore', 'all.zip', '--json'], { cwd, env: { SVC_HOME: directory } })
  t.equal(restored.code, 0, restored.stderr)
  t.match(JSON.parse(restored.stdout), {
    directory,
    aside: null,
    projects: 2,
    deployments: 3,
    missingArchives: [],
    missingTargets: [],
    backup: { directory: home.directory }
  })
  const server = await serve({
    home: locateHome({ SVC_HOME: directory }),
    port: 0,
    cwd,
    clock,
    environment: { ...stage.environment },
    report: { info: () => {}, warn: () => {} }
  })
  t.teardown(() => server.stop({ wait: false }))
  const other = createClient(() => server.url, adminToken)
  const after = await apiPages({ server, client: other })
  const [entry] = (await other.get('/api/audit?action=backup.restore')).body.items
  t.match(entry, { actor: 'system', detail: /^a backup of/ }, 'the log says that it was restored')
  t.strictSame(withoutItem(after, entry.id), withoutItem(before, entry.id), 'nothing else differs')

  await t.test('after a restore, every archive can be deployed again', async t => {
    for (const { id, hasArtifact } of (await other.get(`/api/logs?projectId=${shop.id}`)).body) {
      t.equal(hasArtifact, true)
      t.equal((await other.post(`/api/deployments/${id}/rollback`)).body.status, 'success')
    }
  })

  await t.test('only the owner can read the restored files', async t => {
    const modes = snapshot(directory)
      .filter(line => !/^svc\.sock/.test(line))
      .map(line => / (\d+)/.exec(line)?.[1])
    t.strictSame([...new Set(modes)].sort(), ['600', '700'])
  })
})

t.test('keeps the existing files', async t => {
  const cwd = t.testdir({})
  const server = await startServe(t, cwd)
  const env = { SVC_HOME: server.home }
  const project = await server.createProject({ name: 'shop', deployPath: join(cwd, 'www') })
  t.equal((await svc(['backup', 'a.zip'], { cwd, env })).code, 0)
  await server.createProject({ name: 'later', deployPath: join(cwd, 'later') })

  await t.test('refuses to restore while a server runs', async t => {
    for (const words of [
      ['restore', 'a.zip'],
      ['restore', '--force', 'a.zip']
    ]) {
      const { code, stderr } = await svc(words, { cwd, env })
      t.equal(code, 1)
      t.match(stderr, /^error: Nothing was restored: an svc process is using ".*server-home"\. Stop it first\n$/)
    }
    t.equal((await server.api<unknown[]>('GET', '/api/projects')).length, 2)
    await server.stop()
  })

  await t.test('refuses a directory that is not empty and leaves it unchanged', async t => {
    const before = snapshot(server.home)
    const { code, stderr } = await svc(['restore', 'a.zip'], { cwd, env })
    t.equal(code, 1)
    t.match(
      stderr,
      /^error: Cannot restore into ".*": the data directory is not empty, it contains "config\.json" and \d more\. Choose another with SVC_HOME, or use --force to move the existing files aside\n$/
    )
    t.strictSame(snapshot(server.home), before)
  })

  await t.test('with --force, the old directory is moved aside, and its new path is printed', async t => {
    const before = snapshot(server.home)
    const { code, stdout, stderr } = await svc(['restore', 'a.zip', '--force'], { cwd, env })
    t.equal(code, 0, stderr)
    const aside = /The previous data directory was moved to (\S+)\n/.exec(stdout)?.[1] as string
    t.match(aside, /server-home\.before-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d$/)
    t.strictSame(snapshot(aside), before)
    t.match(
      stderr,
      /warning: the target directory of "shop", .*www, does not exist\. Deploy again .*svc files proj_\w+ --repair/
    )
    const again = await startServe(t, cwd)
    t.match(await again.api<unknown[]>('GET', '/api/projects'), [{ id: project.id }])
    await again.stop()
    const old = await startServe(t, cwd, [], { SVC_HOME: aside })
    t.equal((await old.api<unknown[]>('GET', '/api/projects')).length, 2, 'a server can be started there')
    await old.stop()
  })

  await t.test('a damaged backup changes nothing', async t => {
    const bytes = readFileSync(join(cwd, 'a.zip'))
    bytes[2000] = (bytes[2000] as number) ^ 1
    writeFileSync(join(cwd, 'bad.zip'), bytes)
    const before = snapshot(server.home)
    const forced = await svc(['restore', 'bad.zip', '--force'], { cwd, env })
    t.equal(forced.code, 1)
    t.match(forced.stderr, /error: Cannot restore ".*bad\.zip": the backup is damaged: .*\. Use another backup\n$/)
    t.strictSame(snapshot(server.home), before)
    const other = await svc(['restore', 'bad.zip'], { cwd, env: { SVC_HOME: join(cwd, 'none/none') } })
    t.equal(other.code, 1)
    t.notOk(existsSync(join(cwd, 'none')))
    const checked = await svc(['restore', '--check', 'bad.zip'], { cwd })
    t.equal(checked.code, 1)
    t.equal((await svc(['restore', 'missing.zip'], { cwd })).code, 2)
  })
})

t.test('a wrong file list found at the end leaves no partial restore', async t => {
  const cwd = t.testdir({})
  const files = await smallHome(join(cwd, 'made'))
  await forgeBackup(join(cwd, 'a.zip'), files)
  const list = Object.keys(files).map(path => ({
    path,
    bytes: files[path]?.length,
    sha256: '0'.repeat(64),
    mtimeMs: 1
  }))
  await forgeBackup(join(cwd, 'b.zip'), files, { lies: { files: list } })
  const env = { SVC_HOME: join(cwd, 'home/below') }
  const { code, stderr } = await svc(['restore', 'b.zip'], { cwd, env })
  t.equal(code, 1)
  t.match(stderr, /the SHA-256 of svc\.db is wrong/)
  t.notOk(existsSync(join(cwd, 'home')))
  t.equal((await svc(['restore', 'a.zip'], { cwd, env })).code, 0)
})

t.test('a restore that is killed at any moment is complete or absent', async t => {
  const { cwd, server, shop: project } = await serveShop(t)
  for (let n = 0; n < 12; n++) await (await server.upload(project, { 'index.html': String(n) })).finished
  const made = await svc(['backup', 'a.zip'], { cwd, env: { SVC_HOME: server.home } })
  t.equal(made.code, 0, made.stderr)
  const names = readdirSync(join(server.home, 'deployments')).length
  await server.stop()
  const home = join(cwd, 'home')
  const rounds = repetitions(3, 9)
  const outcomes = { old: 0, new: 0 }
  // How long it is at work, measured by the first round, which nobody kills: the others are spread over that.
  let wholeMs = Infinity
  for (let round = 0; round < rounds; round++) {
    rmSync(home, { recursive: true, force: true })
    mkdirSync(join(home, 'deployments'), { recursive: true })
    writeFileSync(join(home, 'config.json'), '{"adminToken": "the-old-one-0123456789012"}')
    writeFileSync(join(home, 'deployments/old.log'), 'old')
    const child = spawn(process.execPath, [svcPath, 'restore', '--force', 'a.zip'], {
      cwd,
      env: bareEnvironment(cwd, { SVC_HOME: home }),
      stdio: 'ignore'
    })
    const ended = once(child, 'close')
    // The moments of interest are those in which the directory changes.
    const isBegun = (): boolean => readdirSync(home).some(name => name.startsWith('.restore'))
    await until(() => isBegun() || child.exitCode !== null)
    const begunMs = performance.now()
    if (round > 0) await sleep((wholeMs * round) / (rounds - 1))
    if (round > 0) child.kill('SIGKILL')
    await ended
    if (round === 0) wholeMs = performance.now() - begunMs
    const again = await startServe(t, cwd, [], { SVC_HOME: home })
    const projects = await again.api<unknown[]>('GET', '/api/projects')
    await again.stop()
    const isNew = projects.length === 1
    outcomes[isNew ? 'new' : 'old']++
    t.equal(existsSync(join(home, 'deployments/old.log')), !isNew, `round ${round}: all of one`)
    if (isNew) t.equal(readdirSync(join(home, 'deployments')).length, names)
    t.notOk(
      readdirSync(home).some(name => name.startsWith('.restore')),
      'nothing is left of the other'
    )
  }
  t.comment(`${outcomes.old} stayed as they were, ${outcomes.new} were restored`)
})

t.test('refuses a disk that is too small before writing', async t => {
  const disk = smallDisk(t, 1024 * 1024)
  if (disk === null) return
  const cwd = t.testdir({})
  const files = {
    ...(await smallHome(join(cwd, 'made'))),
    'deployments/dep_bbbbbbbbbbbbbbbb.zip': Buffer.alloc(2 * 1024 * 1024)
  }
  await forgeBackup(join(cwd, 'a.zip'), files)
  const { code, stderr } = await svc(['restore', 'a.zip'], { cwd, env: { SVC_HOME: join(disk, 'home') } })
  t.equal(code, 1)
  t.match(
    stderr,
    /error: Cannot restore into ".*home": no space left on device: 2\.\d MB required, [\d.]+ [KM]B free\. Free some space, or choose another directory with SVC_HOME\n$/
  )
  t.strictSame(readdirSync(disk), [])
})

t.test('restores within a data directory that is a mount point, and keeps the existing files in it', async t => {
  const disk = smallDisk(t, 16 * 1024 * 1024)
  if (disk === null) return
  const cwd = t.testdir({})
  await forgeBackup(join(cwd, 'a.zip'), await smallHome(join(cwd, 'made')))
  const env = { SVC_HOME: disk }
  t.equal((await svc(['restore', 'a.zip'], { cwd, env })).code, 0)
  writeFileSync(join(disk, 'mark'), 'x')
  const { code, stdout, stderr } = await svc(['restore', '--force', 'a.zip'], { cwd, env })
  t.equal(code, 0, stderr)
  const aside = /The previous data directory was moved to (\S+)\n/.exec(stdout)?.[1] as string
  t.match(aside, join(disk, 'before-restore-'))
  t.ok(existsSync(join(aside, 'mark')))
  t.strictSame(
    readdirSync(disk).filter(name => !name.startsWith('before')),
    ['config.json', 'deployments', 'svc.db', 'svc.restored']
  )
})

t.test(
  'root restores for the user whose directory it is',
  { skip: process.getuid?.() !== 0 && 'only root can' },
  async t => {
    const cwd = t.testdir({})
    await forgeBackup(join(cwd, 'a.zip'), await smallHome(join(cwd, 'made')))
    const home = join(cwd, 'home')
    mkdirSync(home, { mode: 0o700 })
    execFileSync('chown', ['1234:1235', home])
    chmodSync(home, 0o700)
    t.equal((await svc(['restore', 'a.zip'], { cwd, env: { SVC_HOME: home } })).code, 0)
    for (const name of ['', 'svc.db', 'config.json', 'deployments', 'deployments/dep_aaaaaaaaaaaaaaaa.log']) {
      t.match(statSync(join(home, name)), { uid: 1234, gid: 1235 }, name)
    }
  }
)

t.test('the next start puts back what a deployment that the backup does not know has replaced', async t => {
  const cwd = t.testdir({ site: {} })
  const target = join(cwd, 'site')
  const env = { SVC_HOME: join(cwd, 'server-home') }
  const first = await startServeProcess(t, cwd)
  const project = await first.createProject({ name: 'site', deployPath: target })
  await first.changeProject(project.id, { policy: { confirm: { seconds: 3600 } } })
  const push = async (text: string): Promise<string> => {
    const { deployId, finished } = await first.upload(project, { a: text, [text]: '' })
    finished.catch(() => 'the server was killed')
    await until(async () => (await first.deployments(project.id))[0]?.heldFor === 'confirm')
    return deployId
  }
  const deployment = await push('one')
  await first.api('POST', `/api/deployments/${deployment}/confirm`)
  t.equal((await svc(['backup', 'a.zip'], { cwd, env })).code, 0)
  await push('two')
  t.equal(readFileSync(join(target, 'a'), 'utf8'), 'two')
  await first.stop('SIGKILL')
  t.equal((await svc(['restore', '--force', 'a.zip'], { cwd, env })).code, 0)
  const second = await startServe(t, cwd)
  await until(() => !readdirSync(join(env.SVC_HOME, 'deployments')).some(name => /undo|helper/.test(name)))
  t.strictSame(readdirSync(target).sort(), ['a', 'one'], 'all of it is gone, and its staging directory, too')
  t.equal(readFileSync(join(target, 'a'), 'utf8'), 'one')
  t.equal((await second.deployments(project.id)).length, 1)
})
