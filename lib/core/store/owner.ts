/**
 * Ownership of a data directory: one process owns it, through a lock that ends with the process. The lock is a
 * listening Unix socket, `svc.sock`. A socket file without a listener is stale and blocks nobody.
 *
 * Two starters could collide when both remove a stale socket. So no process removes `svc.sock`; it is replaced by a
 * rename:
 *   1. Announce: listen on a unique name, `svc.sock.<random>`.
 *   2. Look: connect to every other announced name, then to `svc.sock`. A socket that answers has a live owner.
 *   3. If nobody answers, rename the own name to `svc.sock`: the directory is owned.
 *      If an owner answers, refuse.
 *      If only other starters answer, the one whose name sorts first looks again; the others step back and start over.
 * Of two starters, the one that announces itself later always sees the earlier one, so never both succeed. Names are
 * used once, so any process may remove a stale one.
 *
 * If the path is too long for a socket, or the file system does not support sockets, the sockets are in a directory
 * named after a hash of the data directory. It is in /run if root can create it there, else in the system's temporary
 * directory, which must then be the same for both processes. It is not in /run/user/<uid>: that directory, and the lock
 * in it, is removed when the user logs out. Any user may create such a directory first, in order to own the lock or to
 * receive a new admin token. So it is checked before anything in it is touched: it must belong to this user, to the
 * owner of the data directory or to root, and nobody else may have write access.
 *
 * On Windows the lock is a named pipe, which exists once and has no file.
 *
 * A directory that is moved takes its lock along, and one that is removed loses it, while the process still has the path:
 * what it wrote there by name would damage what somebody put in its place. So the store asks `check` before each write.
 */
import { createHash, randomBytes } from 'node:crypto'
import { lstatSync } from 'node:fs'
import { chmod, lstat, mkdir, readdir, realpath, rename, rmdir, stat, unlink } from 'node:fs/promises'
import { createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { loosenessOf, looseParentOf, trustedUsers } from '../../base/files.js'
import { Refusal } from '../../base/errors.js'
import { isListening } from '../../base/socket-probe.js'

/** The ownership of a data directory, and the socket for local commands. */
export interface Ownership {
  /**
   * Listens for local commands. The server adds a `connection` listener; until then, connections are closed
   * immediately.
   */
  server: Server
  /** The path of the socket, for `http.request({ socketPath })`. */
  path: string
  /**
   * Throws if the path leads to another directory than the one that is owned, which was moved or removed, or if its lock
   * is gone. The path may be that of another process. Refuses `database_unavailable`.
   */
  check(): void
  /** Releases the directory. Open connections stay open. Close the store first. */
  release(): Promise<void>
}

/** The directories for sockets that cannot be in the data directory. */
export interface OwnerOptions {
  /** The system's temporary directory. */
  temporary?: string
  /** A directory for files that last until the next boot; only root can write to it. */
  runtime?: string
}

const socketName = 'svc.sock'
const announced = /^svc\.sock\.[0-9a-f]{6}$/
/** Maximum length of a socket's path in bytes: 104 with the final NUL on macOS and BSD, 108 on Linux. */
const maxPathBytes = 103
/** Number of attempts of a starter that meets others: about 10 s in total. */
const maxAttempts = 200
const maxPauseMs = 100
/** Number of times that the first of several starters looks until the others have stepped back. */
const maxLooks = 100
const lookAgainMs = 5

/**
 * Takes ownership of the directory for this process. Refuses `in_use` if another process owns it, and `lock_untrusted`.
 */
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
  const release = async (): Promise<void> => {
    const isOurs = owned.holds()
    await owned.release()
    if (isOurs) await rmdir(far).catch(() => {})
  }
  return { ...owned, release }
}

/**
 * Returns the socket of the process that owns the directory, or null if nobody owns it. Refuses (`lock_untrusted`) a
 * socket directory outside the data directory that another user could have created. The caller checks the data
 * directory itself.
 */
export async function findOwner(directory: string, options: OwnerOptions = {}): Promise<string | null> {
  const home = await realpath(directory)
  const path = process.platform === 'win32' ? pipeOf(home) : join(home, socketName)
  if (await isListening(path)) return path
  if (process.platform === 'win32') return null
  return findFarOwner(home, options).catch((error: unknown) => {
    // Most data directories need no such place, so an untrusted one does not stop a command. ownDirectory refuses it
    // if it is needed.
    if (error instanceof Refusal && isShort(home)) return null
    throw error
  })
}

async function findFarOwner(home: string, options: OwnerOptions): Promise<string | null> {
  for (const place of farPlacesOf(home, options)) {
    const path = join(place, socketName)
    if ((await isTrusted(place, home)) && (await isListening(path))) return path
  }
  return null
}

async function ownPlace(place: string, home: string): Promise<HeldOwnership> {
  const path = join(place, socketName)
  // A starter that finds an owner leaves no trace in its directory.
  if (await isListening(path)) throw await inUseAt(path, home)
  for (let attempt = 0; attempt < maxAttempts; attempt++) {
    const own = `${path}.${randomBytes(3).toString('hex')}`
    const server = await listen(own)
    const outcome = await compete(place, own).catch(async error => {
      // A socket looks stale between bind(2) and listen(2), so another starter may have removed this announcement.
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return 'stepped_back' as const
      await release(server, own)
      throw error
    })
    if (outcome === 'owned') return heldBy(server, { path, home })
    await release(server, own)
    if (outcome === 'in_use') break
    await sleep(Math.random() * maxPauseMs)
  }
  throw await inUseAt(path, home)
}

/**
 * Returns the ownership with its checks. The inode of the socket is taken as long as it listens; that of the directory is
 * compared, too, because the socket may be elsewhere.
 */
function heldBy(server: Server, { path, home }: { path: string; home: string }): HeldOwnership {
  const [lock, directory] = [inodeOf(path), inodeOf(home)]
  const holds = (): boolean => lock !== null && inodeOf(path) === lock
  return {
    server,
    path,
    holds,
    check() {
      if (inodeOf(home) !== directory) throw lost(`"${home}", which this server uses, was moved, removed or replaced`)
      if (!holds()) throw lost(`the lock of the data directory, "${path}", was removed or replaced`)
    },
    // The name may belong to another process by now.
    release: () => release(server, holds() ? path : null)
  }
}

interface HeldOwnership extends Ownership {
  /** Whether the lock is still that of this process. */
  holds(): boolean
}

/** Returns the device and inode at a path, which is no link; null if there is nothing, or it cannot be looked at. */
function inodeOf(path: string): string | null {
  try {
    const { dev, ino } = lstatSync(path, { bigint: true })
    return `${dev}:${ino}`
  } catch {
    return null
  }
}

function lost(why: string): Refusal {
  const sentence = `The database is not available: ${why}. Put it back, or stop this server`
  return new Refusal('unavailable', 'database_unavailable', sentence)
}

/** Loads the search for the process on demand: every start loads this file. */
async function inUseAt(path: string, home: string): Promise<Refusal> {
  const { findListener } = await import('./owner-process.js')
  return inUse(home, await findListener(path))
}

/** Tries to rename `own` to `svc.sock`. */
async function compete(place: string, own: string): Promise<'owned' | 'in_use' | 'stepped_back'> {
  const path = join(place, socketName)
  await chmod(own, 0o600)
  for (let look = 0; look < maxLooks; look++) {
    const others = await othersIn(place, own)
    if (await isListening(path)) return 'in_use'
    if (others.length === 0) {
      await rename(own, path)
      return 'owned'
    }
    if (others.some(other => other < own)) return 'stepped_back'
    await sleep(lookAgainMs)
  }
  return 'stepped_back'
}

/** Returns the announcements of live starters and removes stale ones. */
async function othersIn(place: string, own: string): Promise<string[]> {
  const alive: string[] = []
  for (const name of await readdir(place)) {
    const other = join(place, name)
    if (!announced.test(name) || other === own) continue
    if (await isListening(other)) alive.push(other)
    else await unlink(other).catch(() => {})
  }
  return alive
}

/** The lock does not keep the process running. `allowHalfOpen` is what node:http needs for its sockets. */
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

/** Removes the name first: once the socket is closed, the name may belong to the next owner. */
async function release(server: Server, path: string | null): Promise<void> {
  if (!server.listening) return
  if (path !== null) await unlink(path).catch(() => {})
  server.close()
}

async function ownPipe(home: string): Promise<Ownership> {
  const path = pipeOf(home)
  try {
    const server = await listen(path)
    // A pipe has no name in the file system, and Windows moves no directory with open files.
    return { server, path, check() {}, release: () => release(server, path) }
  } catch (error) {
    if (['EADDRINUSE', 'EACCES'].includes((error as NodeJS.ErrnoException).code ?? '')) throw inUse(home)
    throw error
  }
}

/** Returns the directories that the sockets may be in if they are not in the data directory. */
function farPlacesOf(home: string, { temporary = tmpdir(), runtime = '/run' }: OwnerOptions): string[] {
  return [runtime, temporary].map(parent => join(parent, `svc-${hashOf(home)}`))
}

/** Creates a directory for the sockets, or uses the existing one. Refuses `lock_untrusted`. */
async function openFarPlace(home: string, options: OwnerOptions): Promise<string> {
  const [runtime, temporary] = farPlacesOf(home, options) as [string, string]
  const isRoot = process.getuid?.() === 0
  const place =
    isRoot &&
    (await makePlace(runtime).then(
      () => true,
      () => false
    ))
      ? runtime
      : temporary
  if (place === temporary) await makePlace(temporary)
  await isTrusted(place, home)
  return place
}

async function makePlace(place: string): Promise<void> {
  await mkdir(place, { mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error
  })
}

/**
 * Returns whether the directory exists. Refuses (`lock_untrusted`) one that another user has created or may write to.
 */
async function isTrusted(place: string, home: string): Promise<boolean> {
  const found = await lstat(place).catch(() => null)
  if (found === null) return false
  const owners = [...new Set([...trustedUsers(), (await stat(home)).uid])]
  const isDirectory = found.isDirectory()
  const loose = isDirectory
    ? (loosenessOf(place, found, { owners }) ?? (await looseParentOf(await realpath(place))))
    : null
  if (isDirectory && loose === null) return true
  const why = loose === null ? `"${place}" is not a directory` : loose.why
  const sentence = `Cannot lock "${home}": the lock would be in "${place}", and ${why}. Remove it, or choose a shorter SVC_HOME`
  throw new Refusal('conflict', 'lock_untrusted', sentence)
}

function isShort(place: string): boolean {
  return Buffer.byteLength(join(place, `${socketName}.000000`)) <= maxPathBytes
}

/**
 * Returns whether bind(2) failed because the file system does not support sockets: FAT, 9p, and some network and shared
 * folders.
 */
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
  const which = pid === null ? '' : ` (process id ${pid})`
  return new Refusal(
    'conflict',
    'in_use',
    `Cannot open "${home}": another svc process uses it${which}. Stop that process, or choose another directory with SVC_HOME`
  )
}
