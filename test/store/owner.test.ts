import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, realpathSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer, get } from 'node:http'
import type { IncomingMessage } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { findOwner, ownDirectory } from '../../lib/store/owner.js'
import { bare } from '../support/bare.js'

const program = fileURLToPath(new URL('./owning-program.js', import.meta.url))
const isWindows = process.platform === 'win32'
const inUse = { name: 'Refusal', kind: 'conflict', code: 'in_use', message: /another svc process uses it/ }

/** A directory whose path is short enough for a socket; tap's own may not be. */
function aHome(t: { teardown(remove: () => void): void }): string {
  const home = realpathSync(mkdtempSync(join(tmpdir(), 'svc-test-')))
  t.teardown(() => rmSync(home, { recursive: true, force: true }))
  return home
}

/** A process that tries to own the directory, and what it says: `owned`, or the refusal's code. */
function start(directory: string): { child: ChildProcess; said: Promise<string> } {
  const child = spawn(...bare(process.execPath, [program, directory]), { stdio: ['pipe', 'pipe', 'inherit'] })
  const said = new Promise<string>(resolve => child.stdout?.once('data', (chunk: Buffer) => resolve(String(chunk).trim())))
  return { child, said }
}

function kill(child: ChildProcess): Promise<unknown> {
  const ended = new Promise(resolve => child.once('close', resolve))
  child.kill('SIGKILL')
  return ended
}

t.test('a second owner is refused until the first lets go, by another way to the same directory too', async t => {
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

t.test('the socket is for its owner only', { skip: isWindows && 'Windows has pipes' }, async t => {
  const home = aHome(t)
  const { path, release } = await ownDirectory(home)
  t.teardown(release)
  t.equal(path, join(home, 'svc.sock'))
  t.equal(statSync(path).mode & 0o777, 0o600)
  t.same(readdirSync(home), ['svc.sock'])
})

t.test('a killed owner stands in nobody\'s way', async t => {
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

t.test('of several that start at once over what a killed one left, exactly one owns', async t => {
  const home = aHome(t)
  for (let round = 0; round < 2; round++) {
    const starters = Array.from({ length: 5 }, () => start(home))
    const said = await Promise.all(starters.map(starter => starter.said))
    t.same(said.sort(), ['in_use', 'in_use', 'in_use', 'in_use', 'owned'], `round ${round}`)
    await Promise.all(starters.map(({ child }) => kill(child)))
  }
})

t.test('of several that start at once in one process, exactly one owns', async t => {
  const home = aHome(t)
  for (let round = 0; round < 10; round++) {
    const outcomes = await Promise.allSettled(Array.from({ length: 6 }, () => ownDirectory(home)))
    const owned = outcomes.flatMap(outcome => (outcome.status === 'fulfilled' ? [outcome.value] : []))
    t.equal(owned.length, 1, `round ${round}`)
    await owned[0]?.release()
  }
  t.same(readdirSync(home), [])
})

t.test('a plain file in the place of the socket is no owner', { skip: isWindows && 'Windows has pipes' }, async t => {
  const home = aHome(t)
  writeFileSync(join(home, 'svc.sock'), 'stale')
  const { release } = await ownDirectory(home)
  await t.rejects(ownDirectory(home), inUse)
  await release()
})

t.test('where the path is too long for a socket, the lock is in the temporary directory', { skip: isWindows && 'Windows has pipes' }, async t => {
  const top = t.testdir()
  const home = join(top, 'long'.repeat(30), 'home')
  mkdirSync(home, { recursive: true })
  const temporary = '/tmp'
  const { path, release } = await ownDirectory(home, { temporary })
  t.match(path, /^\/tmp\/svc-[0-9a-f]{16}\/svc\.sock$/)
  t.equal(statSync(join(path, '..')).mode & 0o777, 0o700)
  await t.rejects(ownDirectory(home, { temporary }), inUse)
  t.equal(await findOwner(home, { temporary }), path)
  await release()
  t.notOk(readdirSync('/tmp').includes(path.split('/')[2] as string), 'nothing is left')
})

t.test('a directory that somebody else has put in the place of the lock is not trusted', { skip: isWindows && 'Windows has pipes' }, async t => {
  const top = t.testdir()
  const home = join(top, 'long'.repeat(30))
  mkdirSync(home)
  const { path, release } = await ownDirectory(home, { temporary: '/tmp' })
  await release()
  const place = join(path, '..')
  mkdirSync(place)
  t.teardown(() => rmSync(place, { recursive: true, force: true }))
  chmodSync(place, 0o777)
  await t.rejects(ownDirectory(home, { temporary: '/tmp' }), { code: 'lock_untrusted' })
})

t.test('HTTP is served on the lock; before anybody serves, callers are hung up on', async t => {
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
