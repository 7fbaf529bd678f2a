import { spawn, type ChildProcess } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync
} from 'node:fs'
import { createHash } from 'node:crypto'
import { createServer, get, type IncomingMessage } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { findOwner, ownDirectory } from '../../../lib/core/store/owner.js'
import { bare } from '../../support/bare.js'

const program = fileURLToPath(new URL('./owning-program.js', import.meta.url))
const isWindows = process.platform === 'win32'
const isRoot = process.getuid?.() === 0
const inUse = { name: 'Refusal', kind: 'conflict', code: 'in_use', message: /another svc process uses it/ }

/** Returns a directory whose path is short enough for a socket; tap's own may be too long. */
function aHome(t: { teardown(remove: () => void): void }): string {
  const home = realpathSync(mkdtempSync(join(tmpdir(), 'svc-test-')))
  t.teardown(() => rmSync(home, { recursive: true, force: true }))
  return home
}

/** Starts a process that tries to own the directory. Its output is `owned`, or the code of the refusal. */
function start(directory: string): { child: ChildProcess; said: Promise<string> } {
  const child = spawn(...bare(process.execPath, [program, directory]), { stdio: ['pipe', 'pipe', 'inherit'] })
  const said = new Promise<string>(resolve =>
    child.stdout?.once('data', (chunk: Buffer) => resolve(String(chunk).trim()))
  )
  return { child, said }
}

function kill(child: ChildProcess): Promise<unknown> {
  const ended = new Promise(resolve => child.once('close', resolve))
  child.kill('SIGKILL')
  return ended
}

t.test('refuses a second owner until the first releases the directory, also by another path', async t => {
  const top = aHome(t)
  const home = join(top, 'home')
  mkdirSync(home)
  const first = await ownDirectory(home)
  await t.rejects(ownDirectory(home), inUse)
  symlinkSync(home, join(top, 'link'), 'junction')
  await t.rejects(ownDirectory(join(top, 'link')), inUse)
  t.equal(await findOwner(home), first.path)
  await first.release()
  await first.release()
  t.equal(await findOwner(home), null)
  const second = await ownDirectory(home)
  await second.release()
  t.same(readdirSync(home), [], 'nothing is left')
})

t.test(
  'notices that the directory is another one, and leaves that to its owner',
  { skip: isWindows && 'Windows has pipes' },
  async t => {
    const top = aHome(t)
    const [home, moved] = [join(top, 'home'), join(top, 'moved')]
    const gone = { code: 'database_unavailable', message: /moved, removed or replaced/ }
    mkdirSync(home)
    const first = await ownDirectory(home)
    first.check()
    renameSync(home, moved)
    t.throws(() => first.check(), gone)
    mkdirSync(home)
    t.throws(() => first.check(), gone)
    const second = await ownDirectory(home)
    t.throws(() => first.check(), gone)
    await first.release()
    second.check()
    t.equal(await findOwner(home), second.path, 'the second one keeps its lock')
    await second.release()

    rmSync(home, { recursive: true })
    renameSync(moved, home)
    const third = await ownDirectory(home)
    renameSync(home, moved)
    renameSync(moved, home)
    third.check()
    rmSync(third.path)
    t.throws(() => third.check(), { code: 'database_unavailable', message: /svc\.sock", was removed or replaced/ })
    const fourth = await ownDirectory(home)
    await third.release()
    fourth.check()
    await fourth.release()
  }
)

t.test('creates the socket for its owner only', { skip: isWindows && 'Windows has pipes' }, async t => {
  const home = aHome(t)
  const { path, release } = await ownDirectory(home)
  t.teardown(release)
  t.equal(path, join(home, 'svc.sock'))
  t.equal(statSync(path).mode & 0o777, 0o600)
  t.same(readdirSync(home), ['svc.sock'])
})

t.test("a killed owner stands in nobody's way", async t => {
  const home = aHome(t)
  for (let round = 0; round < 3; round++) {
    const { child, said } = start(home)
    t.equal(await said, 'owned')
    await t.rejects(ownDirectory(home), inUse)
    await kill(child)
  }
  const next = await ownDirectory(home)
  await next.release()
  t.same(readdirSync(home), [])
})

t.test('lets exactly one of several starters own a directory with a stale socket', async t => {
  const home = aHome(t)
  for (let round = 0; round < 2; round++) {
    const starters = Array.from({ length: 5 }, () => start(home))
    const said = await Promise.all(starters.map(starter => starter.said))
    t.same(said.sort(), ['in_use', 'in_use', 'in_use', 'in_use', 'owned'], `round ${round}`)
    await Promise.all(starters.map(({ child }) => kill(child)))
  }
})

t.test('lets exactly one of several starters in one process own the directory', async t => {
  const home = aHome(t)
  for (let round = 0; round < 5; round++) {
    const outcomes = await Promise.allSettled(Array.from({ length: 6 }, () => ownDirectory(home)))
    const owned = outcomes.flatMap(outcome => (outcome.status === 'fulfilled' ? [outcome.value] : []))
    t.equal(owned.length, 1, `round ${round}`)
    await owned[0]?.release()
  }
  t.same(readdirSync(home), [])
})

t.test('treats a plain file in place of the socket as stale', { skip: isWindows && 'Windows has pipes' }, async t => {
  const home = aHome(t)
  writeFileSync(join(home, 'svc.sock'), 'stale')
  const { release } = await ownDirectory(home)
  await t.rejects(ownDirectory(home), inUse)
  await release()
})

/** Returns a data directory whose path is too long for a socket, and the directories for its lock. */
function aLongHome(t: { testdir(): string; teardown(work: () => unknown): void }) {
  const home = join(t.testdir(), 'long'.repeat(30), 'home')
  mkdirSync(home, { recursive: true })
  const top = mkdtempSync(join(tmpdir(), 'svc-lock-'))
  t.teardown(() => rmSync(top, { recursive: true, force: true }))
  const places = { runtime: join(top, 'run'), temporary: join(top, 'tmp') }
  for (const place of Object.values(places)) mkdirSync(place)
  chmodSync(places.temporary, 0o1777)
  chmodSync(top, 0o755)
  return { home, places }
}

t.test(
  'puts the lock in /run or in the temporary directory if the path is too long for a socket',
  { skip: isWindows && 'Windows has pipes' },
  async t => {
    const { home, places } = aLongHome(t)
    const { path, release } = await ownDirectory(home, places)
    t.match(path, /\/svc-[0-9a-f]{16}\/svc\.sock$/)
    t.ok(path.startsWith(isRoot ? places.runtime : places.temporary))
    t.equal(statSync(join(path, '..')).mode & 0o777, 0o700)
    await t.rejects(ownDirectory(home, places), inUse)
    t.equal(await findOwner(home, places), path)
    await release()
    t.same(
      [places.runtime, places.temporary].flatMap(place => readdirSync(place)),
      [],
      'nothing is left'
    )

    const elsewhere = { ...places, runtime: join(places.runtime, 'none') }
    const second = await ownDirectory(home, elsewhere)
    t.ok(second.path.startsWith(places.temporary), 'there is no /run')
    await t.rejects(ownDirectory(home, places), inUse, 'while the first one owns it')
    t.equal(await findOwner(home, places), second.path)
    await second.release()
  }
)

t.test(
  'refuses a lock directory that another user could change before anything is sent',
  { skip: isWindows && 'Windows has pipes' },
  async t => {
    const { home, places } = aLongHome(t)
    const { path, release } = await ownDirectory(home, { ...places, runtime: places.temporary })
    await release()
    const place = join(path, '..')
    let connections = 0
    const plant = async (uid: number, mode: number): Promise<() => Promise<unknown>> => {
      mkdirSync(place)
      const server = createServer().on('connection', () => connections++)
      await new Promise<void>(resolve => server.listen(join(place, 'svc.sock'), resolve))
      if (uid !== 0) chownSync(place, uid, uid)
      chmodSync(place, mode)
      return () => new Promise(resolve => server.close(() => resolve(rmSync(place, { recursive: true, force: true }))))
    }
    const cases: Array<[what: string, uid: number, mode: number]> = [
      ['others have write access', 0, 0o777],
      ['its group has write access', 0, 0o770]
    ]
    if (isRoot) cases.push(['another user has created it', 65_534, 0o755])
    else t.comment('not root: another user’s directory cannot be made')
    for (const [what, uid, mode] of cases) {
      const remove = await plant(uid, mode)
      const refused = {
        code: 'lock_untrusted',
        message: new RegExp(
          `^Cannot lock ".*": the lock would be in "${place}", and .*"${place}".*\\. Remove it, or choose a shorter SVC_HOME$`
        )
      }
      await t.rejects(findOwner(home, places), refused, what)
      await t.rejects(ownDirectory(home, places), refused, what)
      await remove()
    }
    t.equal(connections, 0)
  }
)

t.test(
  'ignores an untrusted lock directory if it is not needed',
  { skip: isWindows && 'Windows has pipes' },
  async t => {
    const home = aHome(t)
    const { places } = aLongHome(t)
    const place = join(places.temporary, `svc-${createHash('sha256').update(home).digest('hex').slice(0, 16)}`)
    mkdirSync(place)
    chmodSync(place, 0o777)
    t.equal(await findOwner(home, places), null)
    const { release } = await ownDirectory(home, places)
    await release()
  }
)

t.test('serves HTTP on the lock, and closes connections before it is served', async t => {
  const { server, path, release } = await ownDirectory(aHome(t))
  t.teardown(release)
  await t.rejects(request(path), { code: /^(ECONNRESET|EPIPE)$/ })
  const http = createServer((_, response) => response.end('hello'))
  server.on('connection', socket => http.emit('connection', socket))
  t.equal(await request(path), 'hello')
})

async function request(socketPath: string): Promise<string> {
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    get({ socketPath, path: '/', agent: false }, resolve).once('error', reject)
  })
  let text = ''
  for await (const chunk of response) text += String(chunk)
  return text
}
