/**
 * One process owns a data directory, through a lock that dies with it: a listening Unix socket, `svc.sock`. A file that
 * nobody listens on is stale and stands in nobody's way.
 *
 * Removing a stale socket is where two starters could trip each other, so nobody removes `svc.sock`; it is renamed over:
 *   1. announce: listen on a name of one's own, `svc.sock.<random>`
 *   2. look: connect to every other announced name, then to `svc.sock`; whoever answers is alive
 *   3. nobody is: rename one's own name to `svc.sock`; it is owned
 *      an owner is: refuse
 *      only other starters are: the one whose name sorts first looks again, the others step back and begin again
 * Of two starters the later announcer always sees the earlier one, so never both pass; names are used once, so a dead
 * one may be removed by anybody.
 *
 * If the path is too long for a socket, or the file system supports none, the sockets are in a directory named by a hash of
 * the data directory: in /run, where root may make one, else in the system's temporary directory, which then must be the
 * same for both processes. Not in /run/user/<uid>: it goes when the user logs out, and the lock with it. Anybody may make
 * such a directory first, to own the lock, or to be told a new admin token. So it is judged before anything in it is
 * touched: a directory of this user, of the data directory's owner or of root, that nobody else may write to.
 * On Windows the lock is a named pipe, which exists once and has no file.
 */
import { createHash, randomBytes } from 'node:crypto'
import { chmod, lstat, mkdir, readdir, realpath, rename, rmdir, stat, unlink } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import type { Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { loosenessOf, looseParentOf, trustedUsers } from '../base/permissions.js'
import { Refusal } from '../base/refusal.js'

export interface Ownership {
  /** Listens for the local operator. Whoever serves adds a `connection` listener; until then callers are hung up on. */
  server: Server
  /** Where it listens: for `http.request({ socketPath })`. */
  path: string
  /** Lets go; connections that are open stay so. Close the store first. */
  release(): Promise<void>
}

export interface OwnerOptions {
  /** The system's temporary directory. */
  temporary?: string
  /** For what runs until the next boot; only root may write to it. */
  runtime?: string
}

type Liveness = 'alive' | 'dead'

const socketName = 'svc.sock'
const announced = /^svc\.sock\.[0-9a-f]{6}$/
/** Bytes of a socket's path: 104 with the final NUL on macOS and BSD, 108 on Linux. */
const maxPathBytes = 103
/** Starters that meet others begin again this often, some 10 s, before they give up. */
const maxAttempts = 200
const maxPauseMs = 100
/** The first of several looks this often until the others have stepped back. */
const maxLooks = 100
const lookAgainMs = 5

/** Takes the directory for this process. Refuses `in_use` while another one has it, `lock_untrusted`. */
export async function ownDirectory(directory: string, options: OwnerOptions = {}): Promise<Ownership> {
  const home = await realpath(directory)
  if (process.platform === 'win32') return ownPipe(home)
  if (isShort(home)) {
    try {
      return await ownPlace(home, home)
    } catch (error) {
      if (!isWithoutSockets(error)) throw error
    }
  }
  const other = await findFarOwner(home, options)
  if (other !== null) throw await inUseAt(other, home)
  const far = await openFarPlace(home, options)
  const owned = await ownPlace(far, home)
  return { ...owned, release: () => owned.release().finally(() => rmdir(far).catch(() => {})) }
}

/**
 * Where the process that owns the directory listens; null: nobody owns it. Refuses (`lock_untrusted`) a place outside of
 * the directory that another user could have made. The directory itself is the caller's to judge.
 */
export async function findOwner(directory: string, options: OwnerOptions = {}): Promise<string | null> {
  const home = await realpath(directory)
  const path = process.platform === 'win32' ? pipeOf(home) : join(home, socketName)
  if ((await probe(path)) === 'alive') return path
  if (process.platform === 'win32') return null
  return findFarOwner(home, options).catch((error: unknown) => {
    // Most directories need no such place, so one that a stranger makes stops no command: ownDirectory refuses it if it is needed.
    if (error instanceof Refusal && isShort(home)) return null
    throw error
  })
}

async function findFarOwner(home: string, options: OwnerOptions): Promise<string | null> {
  for (const place of farPlacesOf(home, options)) {
    const path = join(place, socketName)
    if ((await isTrusted(place, home)) && (await probe(path)) === 'alive') return path
  }
  return null
}

async function ownPlace(place: string, home: string): Promise<Ownership> {
  const path = join(place, socketName)
  // Whoever only meets an owner leaves no trace in its directory.
  if ((await probe(path)) === 'alive') throw await inUseAt(path, home)
  for (let attempt = 0; attempt < maxAttempts; attempt++) {
    const own = `${path}.${randomBytes(3).toString('hex')}`
    const server = await listen(own)
    const outcome = await compete(place, own).catch(async error => {
      // Between its bind(2) and its listen(2) a socket looks dead: another starter has removed the announcement.
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return 'stepped_back' as const
      await release(server, own)
      throw error
    })
    if (outcome === 'owned') return { server, path, release: () => release(server, path) }
    await release(server, own)
    if (outcome === 'in_use') break
    await sleep(Math.random() * maxPauseMs)
  }
  throw await inUseAt(path, home)
}

/** What looks for the process is loaded only then: every start reads this file. */
async function inUseAt(path: string, home: string): Promise<Refusal> {
  const { findListener } = await import('./owner-process.js')
  return inUse(home, await findListener(path))
}

/** From the announcement of `own` to `svc.sock`, or not. */
async function compete(place: string, own: string): Promise<'owned' | 'in_use' | 'stepped_back'> {
  const path = join(place, socketName)
  await chmod(own, 0o600)
  for (let look = 0; look < maxLooks; look++) {
    const others = await othersIn(place, own)
    if ((await probe(path)) === 'alive') return 'in_use'
    if (others.length === 0) {
      await rename(own, path)
      return 'owned'
    }
    if (others.some(other => other < own)) return 'stepped_back'
    await sleep(lookAgainMs)
  }
  return 'stepped_back'
}

/** The other starters that have announced themselves and are alive; what the dead have left is removed. */
async function othersIn(place: string, own: string): Promise<string[]> {
  const alive: string[] = []
  for (const name of await readdir(place)) {
    const other = join(place, name)
    if (!announced.test(name) || other === own) continue
    if ((await probe(other)) === 'alive') alive.push(other)
    else await unlink(other).catch(() => {})
  }
  return alive
}

/** Only what surely nobody listens on is dead: a full backlog or a missing right means that somebody is there. */
function probe(path: string): Promise<Liveness> {
  if (process.platform !== 'win32' && Buffer.byteLength(path) > maxPathBytes) return Promise.resolve('dead')
  return new Promise(resolve => {
    const socket = connect(path)
    socket.once('connect', () => {
      socket.destroy()
      resolve('alive')
    })
    socket.once('error', (error: NodeJS.ErrnoException) => {
      resolve(['ECONNREFUSED', 'ENOENT', 'ENOTSOCK'].includes(error.code ?? '') ? 'dead' : 'alive')
    })
  })
}

/** The lock keeps no process running by itself. `allowHalfOpen` as node:http wants its sockets. */
function listen(path: string): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer({ allowHalfOpen: true })
    server.on('connection', socket => {
      if (server.listenerCount('connection') === 1) socket.destroy()
    })
    server.once('error', reject)
    server.listen(path, () => {
      server.off('error', reject)
      resolve(server.unref())
    })
  })
}

/** The name goes first: once the socket is closed, the name may be the next owner's. */
async function release(server: Server, path: string): Promise<void> {
  if (!server.listening) return
  await unlink(path).catch(() => {})
  server.close()
}

async function ownPipe(home: string): Promise<Ownership> {
  const path = pipeOf(home)
  try {
    const server = await listen(path)
    return { server, path, release: () => release(server, path) }
  } catch (error) {
    if (['EADDRINUSE', 'EACCES'].includes((error as NodeJS.ErrnoException).code ?? '')) throw inUse(home)
    throw error
  }
}

/** Where the sockets may be that are not in the data directory. */
function farPlacesOf(home: string, { temporary = tmpdir(), runtime = '/run' }: OwnerOptions): string[] {
  return [runtime, temporary].map(parent => join(parent, `svc-${hashOf(home)}`))
}

/** Makes a directory for the sockets, or finds the one that is there. Refuses `lock_untrusted`. */
async function openFarPlace(home: string, options: OwnerOptions): Promise<string> {
  const [runtime, temporary] = farPlacesOf(home, options) as [string, string]
  const isRoot = process.getuid?.() === 0
  const place = isRoot && (await makePlace(runtime).then(() => true, () => false)) ? runtime : temporary
  if (place === temporary) await makePlace(temporary)
  await isTrusted(place, home)
  return place
}

async function makePlace(place: string): Promise<void> {
  await mkdir(place, { mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error
  })
}

/** Whether there is a place to look into. Refuses (`lock_untrusted`) one that another user has made, or may write to. */
async function isTrusted(place: string, home: string): Promise<boolean> {
  const found = await lstat(place).catch(() => null)
  if (found === null) return false
  const owners = [...new Set([...trustedUsers(), (await stat(home)).uid])]
  const isDirectory = found.isDirectory()
  const loose = isDirectory ? (loosenessOf(place, found, { owners }) ?? (await looseParentOf(await realpath(place)))) : null
  if (isDirectory && loose === null) return true
  const why = loose === null ? `"${place}" is no directory` : loose.why
  const sentence = `Cannot lock "${home}": the lock would be in "${place}", and ${why}. Remove it, or choose a shorter SVC_HOME`
  throw new Refusal('conflict', 'lock_untrusted', sentence)
}

function isShort(place: string): boolean {
  return Buffer.byteLength(join(place, `${socketName}.000000`)) <= maxPathBytes
}

/** What binding says on FAT, 9p and some network and shared folders. */
function isWithoutSockets(error: unknown): boolean {
  return ['EOPNOTSUPP', 'ENOTSUP', 'EPERM', 'ENXIO', 'EINVAL'].includes((error as NodeJS.ErrnoException).code ?? '')
}

function pipeOf(home: string): string {
  return `\\\\.\\pipe\\svc-${hashOf(home.toLowerCase())}`
}

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 16)
}

function inUse(home: string, pid: number | null = null): Refusal {
  const who = pid === null ? 'another svc process uses it' : `another svc process uses it, with the process id ${pid}`
  return new Refusal('conflict', 'in_use', `cannot open "${home}": ${who}; stop that one first, or choose another with SVC_HOME`)
}
