import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync
} from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { openBackup, type Backup } from '../../../lib/backup/read-backup.js'
import { openStore } from '../../../lib/store/durable-store.js'
import { deploymentStates } from '../../../lib/store/tables/deployments.js'
import { listProjects } from '../../../lib/store/tables/projects.js'
import type { Project } from '../../../lib/model/project.js'
import { startServeProcess } from '../../support/serve-process.js'
import { smallDisk } from '../../support/small-disk.js'
import { svc } from '../../support/svc.js'
import { until } from '../../support/until.js'

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
  const server = await startServeProcess(t, cwd)
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
      t.match(summary, { version: 'dev', directory: server.home, host: String })
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
    await startServeProcess(t, cwd)
    // The server listens before it has tidied up; this waits until it has.
    await svc(['verify'], { cwd, env })
    t.notOk(existsSync(left))
  })
})

t.test('while others write, it has every write that was acknowledged before, and every record its files', async t => {
  const cwd = t.testdir({})
  const server = await startServeProcess(t, cwd)
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
    const again = await startServeProcess(t, cwd, [], { SVC_HOME: home })
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
  const server = await startServeProcess(t, cwd)
  const env = { SVC_HOME: server.home }
  const project = await server.createProject({ name: 'shop', deployPath: join(cwd, 'www') })
  await (await server.upload(project, { 'large.bin': randomBytes(4 * 1024 * 1024).toString('base64') })).finished
  const sentence =
    /^Backing up…\nerror: Nothing was backed up: no space left on device at ".*a\.zip\.part"\. Free some space, or choose another (?:place|path)\n$/
  const { code, stderr } = await svc(['backup', join(disk, 'a.zip')], { cwd, env })
  t.equal(code, 1)
  t.match(stderr, sentence)
  t.strictSame(readdirSync(disk), [])
  t.strictSame(readdirSync(join(server.home, 'tmp')), [])
  t.match(await server.api<Project[]>('GET', '/api/projects'), [{ id: project.id }], 'the server goes on')
  appendFileSync(join(disk, 'ballast'), Buffer.alloc(1024))
})
