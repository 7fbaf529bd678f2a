import { execFileSync, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  truncateSync,
  writeFileSync
} from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { schemaVersion } from '../../lib/core/store/schema.js'
import { bare } from '../support/bare.js'
import { newerDatabase, olderDatabase, olderVersion } from '../support/older-database.js'
import { startServeProcess } from '../support/serve-process.js'
import { smallDisk } from '../support/small-disk.js'
import { bareEnvironment, programHere, svcPath } from '../support/svc.js'
import { isThorough } from '../support/thorough.js'
import { until } from '../support/until.js'
import { listen } from '../support/on-loopback.js'

/**
 * `svc serve` under bad conditions must print a sentence with the cause and the next step, exit with 1, and
 * leave every file of the data directory as it was, including its time.
 */
const isRoot = process.getuid?.() === 0
const someoneElse = 65_534

interface Ended {
  code: number | null
  stderr: string
}

/**
 * Starts a server, as another user if one is given. A server that starts unexpectedly is stopped again. With THOROUGH=1
 * each is a process.
 */
async function serve(
  cwd: string,
  home: string,
  { uid, words = ['--port', '0'] }: { uid?: number; words?: string[] } = {}
): Promise<Ended> {
  const identity = uid === undefined ? {} : { uid, gid: uid }
  const env = bareEnvironment(cwd, { SVC_HOME: home })
  let stderr = ''
  let stop = (): unknown => undefined
  const hear = (name: 'stdout' | 'stderr', text: string): void => {
    if (name === 'stderr') stderr += text
    // A signal may cut the first start while it writes its key, and the next one says what was left.
    else if (text.includes('svc listens'))
      void until(() => existsSync(join(home, 'keys/server.pub'))).finally(() => stop())
  }
  if (uid === undefined && !isThorough) {
    const { run, signal } = programHere({ cwd, env, hear })
    stop = () => signal('SIGTERM')
    return { code: await run(['serve', ...words]), stderr }
  }
  const child = spawn(...bare(process.execPath, [svcPath, 'serve', ...words]), { cwd, env, stdio: 'pipe', ...identity })
  stop = () => child.kill('SIGTERM')
  for (const name of ['stdout', 'stderr'] as const)
    child[name].setEncoding('utf8').on('data', (text: string) => hear(name, text))
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, stderr }
}

/** Returns each file and directory with its contents, its mode and its time. */
function stateOf(directory: string): string[] {
  const found: string[] = []
  const visit = (path: string): void => {
    for (const name of readdirSync(join(directory, path)).sort()) {
      const way = join(path, name)
      const stats = lstatSync(join(directory, way))
      // A lock that nobody holds may exist or not, and a server that runs looks whether it can write.
      if (stats.isSocket() || name === 'health.probe') continue
      const contents = stats.isFile()
        ? createHash('sha256')
            .update(readFileSync(join(directory, way)))
            .digest('hex')
        : ''
      found.push(`${way} ${stats.mode.toString(8)} ${stats.uid} ${stats.mtimeMs} ${contents}`)
      if (stats.isDirectory()) visit(way)
    }
  }
  if (lstatSync(directory).isDirectory()) visit('')
  else found.push(readFileSync(directory, 'utf8'))
  return found
}

/** Creates a data directory as a killed server leaves it, with writes that are only in its redo log. */
const killedHome = mkdtempSync(join(tmpdir(), 'svc-circumstances-'))
t.teardown(() => rmSync(killedHome, { recursive: true, force: true }))
t.before(async () => {
  const server = await startServeProcess(t, killedHome)
  await server.createProject({ name: 'shop', deployPath: join(killedHome, 'www') })
  // The key of the server is made with the first checkpoint. A kill while it is made would leave a file, and the next start
  // would name it.
  await server.api('GET', '/api/audit/checkpoint')
  await server.stop('SIGKILL')
})

/** Copies a data directory to a place that other users can reach. */
function furnish(t: Test): { cwd: string; home: string } {
  const cwd = mkdtempSync(join(tmpdir(), 'svc-circumstance-'))
  t.teardown(() => rmSync(cwd, { recursive: true, force: true }))
  chmodSync(cwd, 0o755)
  const home = join(cwd, 'home')
  cpSync(join(killedHome, 'server-home'), home, {
    recursive: true,
    preserveTimestamps: true,
    filter: path => !lstatSync(path).isSocket()
  })
  return { cwd, home }
}

interface Circumstance {
  what: string
  /** Creates the condition. May return another data directory than the given one. */
  make(home: string, t: Test): string | void | Promise<string | void>
  sentence: RegExp
  /** User who starts the server; only root can choose. */
  uid?: number
}

const spoil =
  (name: string, contents: string) =>
  (home: string): void => {
    rmSync(join(home, name), { recursive: true, force: true })
    writeFileSync(join(home, name), contents)
  }
const intoDirectory =
  (name: string) =>
  (home: string): void => {
    rmSync(join(home, name))
    mkdirSync(join(home, name))
  }

const circumstances: Circumstance[] = [
  {
    what: 'the data directory is a file',
    make: home => (spoil('a', 'x')(home), join(home, 'a')),
    sentence: /Cannot use the data directory ".*": ".*" is a file\. Choose another with SVC_HOME/
  },
  {
    what: 'it is below a file',
    make: home => (spoil('a', 'x')(home), join(home, 'a/b')),
    sentence: /Cannot use the data directory ".*": ".*\/a" is a file\. Choose another with SVC_HOME/
  },
  {
    what: 'deployments is a file',
    make: spoil('deployments', 'x'),
    sentence: /deployments": ".*deployments" is a file\. Choose another/
  },
  {
    what: 'config.json is broken',
    make: spoil('config.json', '{\n  "adminToken": x\n}'),
    sentence: /Cannot read ".*config\.json": unexpected "x" in line 2, column 17\. Correct the JSON/
  },
  {
    what: 'config.json has a wrong type',
    make: spoil('config.json', '{"adminToken": 5}'),
    sentence: /Cannot read ".*config\.json": "adminToken" must be a string/
  },
  {
    what: 'config.json is a directory',
    make: intoDirectory('config.json'),
    sentence: /Cannot read ".*config\.json": is a directory\. Move it away/
  },
  {
    what: 'svc.db is not a database',
    make: spoil('svc.db', 'this is no database'),
    sentence:
      /svc\.db" is damaged \(it is not a SQLite file\)\. Nothing was changed\. Restore a backup with "svc restore --force"/
  },
  {
    what: 'svc.db has a damaged page',
    make: home =>
      writeFileSync(join(home, 'svc.db'), readFileSync(join(home, 'svc.db')).fill(0xff, 4096 * 3, 4096 * 5)),
    sentence: /svc\.db" is damaged \(.*\)\. Nothing was changed\. Restore a backup/
  },
  {
    what: 'svc.db is truncated',
    make: home => truncateSync(join(home, 'svc.db'), 20_000),
    sentence: /svc\.db" is damaged \(it is 20000 bytes long, and its header says \d+\)\. Nothing was changed/
  },
  {
    what: 'svc.db is missing, its redo log exists',
    make: home => rmSync(join(home, 'svc.db')),
    sentence: /svc\.db" is missing, but .*redo" has writes that depend on it\. Put .* back/
  },
  {
    what: 'svc.db is a directory',
    make: intoDirectory('svc.db'),
    sentence: /Cannot open the database: cannot read ".*svc\.db"/
  },
  {
    what: 'the redo log is damaged',
    make(home) {
      const path = join(home, 'svc.db.redo')
      const bytes = readFileSync(path)
      bytes[20] = (bytes[20] as number) ^ 1
      writeFileSync(path, bytes)
    },
    sentence: /svc\.db\.redo", which contains the latest writes, is damaged \(.*\)\. Nothing was changed/
  },
  {
    what: 'it was written by a newer svc',
    make: home => newerDatabase(join(home, 'svc.db')),
    sentence: new RegExp(
      `has schema version ${schemaVersion + 1}, but this svc supports at most ${schemaVersion}. Install the newer svc again, or run "svc restore --force"`
    )
  },
  {
    what: 'its file system is read-only',
    make(home, t) {
      const at = join(home, '../mounted')
      mkdirSync(at)
      execFileSync('mount', ['--bind', home, at])
      t.teardown(() => execFileSync('umount', ['-l', at]))
      execFileSync('mount', ['-o', 'remount,bind,ro', at])
      return at
    },
    sentence: /^error: Cannot use the data directory ".*": read-only file system\. Choose another with SVC_HOME\n$/,
    uid: 0
  },
  {
    what: 'it belongs to another user',
    make: home => chmodSync(home, 0o755),
    sentence:
      /: permission denied: it belongs to the user 0, this is 65534\. Run svc as its owner, or give it to this user \(chown\), or choose another with SVC_HOME/,
    uid: someoneElse
  },
  {
    what: 'other users may write to it',
    make: home => chmodSync(home, 0o777),
    sentence:
      /The data directory ".*" cannot be trusted: other users may write to ".*\/home" \(mode 0777\)\. Run "chmod go-w .*\/home", or choose another/
  },
  {
    what: 'the group may write to config.json',
    make: home => chmodSync(join(home, 'config.json'), 0o660),
    sentence: /other users may write to ".*\/config\.json" \(mode 0660\)\. Run "chmod go-w /
  },
  {
    what: 'config.json was created by another user',
    make: home => chownSync(join(home, 'config.json'), someoneElse, someoneElse),
    sentence: /"[^"]*\/config\.json" belongs to the user 65534\. Run "chown 0 /,
    uid: 0
  },
  {
    what: 'other users may write to its parent directory',
    make: home => chmodSync(join(home, '..'), 0o777),
    sentence: /cannot be trusted: other users may write to ".*svc-circumstance-\w+" \(mode 0777\)/
  },
  {
    what: 'its files belong to another user',
    make: home => chownSync(home, someoneElse, someoneElse),
    sentence: /deployments": permission denied: it belongs to the user 0, this is 65534\./,
    uid: someoneElse
  },
  {
    what: 'config.json belongs to another user',
    make(home) {
      for (const name of ['', 'deployments', 'tmp', 'svc.db', 'svc.db.redo'])
        chownSync(join(home, name), someoneElse, someoneElse)
    },
    sentence:
      /Cannot read ".*config\.json": permission denied: it belongs to the user 0, this is 65534\. Run svc as its owner, or give it to this user \(chown\)/,
    uid: someoneElse
  },
  {
    what: 'svc.db belongs to another user',
    make(home) {
      for (const name of ['', 'deployments', 'tmp', 'config.json', 'svc.db.redo'])
        chownSync(join(home, name), someoneElse, someoneElse)
    },
    sentence: /cannot read ".*svc\.db": permission denied\. Run svc as its owner, or give it to this user \(chown\)/,
    uid: someoneElse
  }
]

/** Another user may have no access to this program. */
async function whyNobodyElse(): Promise<string | false> {
  if (!isRoot) return 'only root can be somebody else'
  const child = spawn(...bare(process.execPath, [svcPath, '--version']), {
    uid: someoneElse,
    gid: someoneElse,
    stdio: 'ignore',
    cwd: '/'
  })
  const code = await once(child, 'close').then(
    ([code]) => code as number,
    () => null
  )
  return code === 0 ? false : 'another user cannot run this program from here'
}

t.test('explains a failed start and what to do, and changes nothing', async t => {
  const noOther = await whyNobodyElse()
  for (const { what, make, sentence, uid } of circumstances) {
    const skip = uid === someoneElse ? noOther : uid === 0 && !isRoot && 'only root can'
    await t.test(what, { skip }, async t => {
      const { cwd, home } = furnish(t)
      const given = (await make(home, t)) ?? home
      const before = stateOf(home)
      const { code, stderr } = await serve(cwd, given, uid === undefined || uid === 0 ? {} : { uid })
      t.match(stderr, sentence)
      t.match(stderr, /^error: [^\n]+\n$/, 'one sentence')
      t.equal(code, 1)
      t.strictSame(stateOf(home), before)
    })
  }
})

t.test('explains a second server and a port that is in use', async t => {
  const { cwd, home } = furnish(t)
  // By then the leftovers of the killed server have been recovered.
  await serve(cwd, home)
  const first = await startServeProcess(t, cwd, [], { SVC_HOME: home })
  const before = stateOf(home)
  const second = await serve(cwd, home)
  t.equal(second.code, 1)
  t.match(
    second.stderr,
    /^error: Cannot open ".*home": another svc process uses it( \(process id \d+\))?\. Stop that process, or choose another directory with SVC_HOME\n$/
  )
  t.strictSame(stateOf(home), before)
  t.match(await first.api('GET', '/api/projects'), [{ name: 'shop' }], 'the first server continues')
  await first.stop()

  const taken = createServer()
  const idle = stateOf(home)
  const { code, stderr } = await serve(cwd, home, { words: ['--port', String(await listen(t, taken))] })
  t.equal(code, 1)
  t.match(stderr, /^error: .*address already in use.*\n$/)
  t.strictSame(stateOf(home), idle)
})

t.test('handles a full disk', async t => {
  await t.test('refuses the first start and leaves nothing behind', async t => {
    const disk = smallDisk(t, 64 * 1024)
    if (disk === null) return
    const { code, stderr } = await serve(t.testdir({}), disk)
    t.equal(code, 1)
    t.match(
      stderr,
      /^error: Cannot use the data directory ".*": no space left on device\. Free some space, or choose another with SVC_HOME\n$/
    )
    t.strictSame(readdirSync(disk), [])
  })

  await t.test('refuses an upgrade without changing anything, and completes it when there is space', async t => {
    const disk = smallDisk(t, 4 * 1024 * 1024)
    if (disk === null) return
    const { cwd, home } = furnish(t)
    // The data of the killed server has the newest schema and is folded in first.
    await serve(cwd, home)
    await olderDatabase(join(home, 'svc.db'))
    cpSync(home, disk, { recursive: true, preserveTimestamps: true })
    fill(join(disk, 'ballast'))
    const before = stateOf(disk)
    const { code, stderr } = await serve(cwd, disk)
    t.equal(code, 1)
    t.match(stderr, /no space left on device\. Free some space/)
    t.strictSame(stateOf(disk), before)
    rmSync(join(disk, 'ballast'))
    const server = await startServeProcess(t, cwd, [], { SVC_HOME: disk })
    t.match(await server.api('GET', '/api/projects'), [{ name: 'shop' }])
    t.ok(readdirSync(disk).includes(`svc.db.schema-${olderVersion}`))
    await server.stop()
  })

  await t.test('refuses a single write but serves reads, and writes again when there is space', async t => {
    const disk = smallDisk(t, 4 * 1024 * 1024)
    if (disk === null) return
    const { cwd, home } = furnish(t)
    cpSync(home, disk, { recursive: true })
    const server = await startServeProcess(t, cwd, [], { SVC_HOME: disk })
    const [project] = await server.api<Array<{ id: string }>>('GET', '/api/projects')
    fill(join(disk, 'ballast'))
    const write = (n: number): Promise<unknown> =>
      server.changeProject(project?.id as string, { postDeployScript: `echo ${n}`.repeat(3000) })
    let refusal = ''
    for (let n = 0; refusal === '' && n < 300; n++)
      refusal = await write(n).then(
        () => '',
        (error: Error) => error.message
      )
    t.match(refusal, /503.*The change was not saved: no space left on device/)
    t.match(await server.api('GET', '/api/projects'), [{ name: 'shop' }])
    rmSync(join(disk, 'ballast'))
    await write(1)
    await server.stop()
  })
})

function fill(path: string): void {
  const block = Buffer.alloc(4096)
  try {
    for (;;) writeFileSync(path, block, { flag: 'a' })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
  }
}

t.test(
  'warns root on the data directory of another user, and keeps that user as the owner of what commands write',
  { skip: !isRoot && 'only root can' },
  async t => {
    const { cwd, home } = furnish(t)
    for (const name of ['', ...readdirSync(home)]) chownSync(join(home, name), someoneElse, someoneElse)
    const { code, stderr } = await serve(cwd, home)
    t.equal(code, 0)
    t.match(stderr, /svc runs as root, but the data directory ".*" belongs to the user 65534\. Run svc as that user/)
    for (const name of ['svc.db', 'svc.db.redo', 'config.json'])
      t.equal(lstatSync(join(home, name)).uid, someoneElse, name)
  }
)
