/*
 * Listening on a Unix socket, a file that a proxy on this machine opens.
 *
 * The file outlives a server that was killed, and bind(2) refuses a name that is taken. So the socket is bound under a
 * name of its own beside the path, given its mode, and renamed over what a dead server left: nobody meets it with
 * another mode, and at no moment is the name free. Only a socket on which nobody listens is ever replaced.
 */
import { randomBytes } from 'node:crypto'
import { constants, type Stats } from 'node:fs'
import { access, chmod, lstat, readdir, rename, stat, unlink } from 'node:fs/promises'
import { connect } from 'node:net'
import type { Server } from 'node:net'
import { dirname, join } from 'node:path'
import { Refusal } from '../base/refusal.js'

export interface SocketPlace {
  /** Absolute. */
  path: string
  /** Who may connect: whoever may write to the file. */
  mode: number
}

/** Bytes of a path without the NUL at its end: sun_path of sockaddr_un has 108 on Linux, 104 elsewhere. */
export const maxPathBytes = process.platform === 'linux' ? 107 : 103

/** Refuses what `listenOnSocket` would, and leaves nothing behind: before a start that should change nothing if it fails. */
export async function checkSocketPath(path: string): Promise<void> {
  checkLength(path, besides(path))
  await checkFree(path)
  await access(dirname(path), constants.W_OK | constants.X_OK).catch((error: NodeJS.ErrnoException) => {
    throw refusalOf(error, path)
  })
}

/**
 * Resolves with what removes the file again, as far as it still is the server's own. Refuses, with the field `--socket`:
 * 409 `address_in_use` where a server listens, 409 `path_taken` where a file lies that is no socket, 400
 * `invalid_address` for what cannot be a socket's path.
 */
export async function listenOnSocket(server: Server, { path, mode }: SocketPlace): Promise<() => Promise<void>> {
  const own = besides(path)
  checkLength(path, own)
  await checkFree(path)
  try {
    await listen(server, own)
    await chmod(own, mode)
    const mine = await lstat(own)
    await rename(own, path)
    await removeDead(dirname(path)).catch(() => {})
    return () => remove(path, mine)
  } catch (error) {
    await unlink(own).catch(() => {})
    // libuv says EACCES for a directory that is not there.
    throw refusalOf(await stat(dirname(path)).then(() => error, missing => missing) as NodeJS.ErrnoException, path)
  }
}

const ownPattern = /^\.[0-9a-f]{6}$/

function besides(path: string): string {
  return join(dirname(path), `.${randomBytes(3).toString('hex')}`)
}

/** What killed servers of this user left between binding a socket and renaming it. */
async function removeDead(directory: string): Promise<void> {
  for (const name of await readdir(directory)) {
    if (!ownPattern.test(name)) continue
    const found = await lstat(join(directory, name))
    if (found.isSocket() && found.uid === process.getuid?.() && (await isDead(join(directory, name)))) await unlink(join(directory, name))
  }
}

/** Fails as the system does. */
function listen(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen({ path, backlog: 511 }, () => {
      server.off('error', reject)
      resolve()
    })
  })
}

function checkLength(path: string, own: string): void {
  // Of a name that is shorter than the one it is bound under at first, that one counts.
  const bytes = Math.max(Buffer.byteLength(path), Buffer.byteLength(own))
  if (bytes > maxPathBytes) throw invalidPath(path, `the path has ${bytes} bytes, and a socket's at most ${maxPathBytes}; choose a shorter one`)
}

/** Nothing is there, or a socket on which nobody listens any more. */
async function checkFree(path: string): Promise<void> {
  const found = await lstat(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null
    throw refusalOf(error, path)
  })
  if (found === null) return
  if (!found.isSocket()) {
    const sentence = `Cannot listen on the socket "${path}": ${kindOf(found)} is there, and stays; choose another path`
    throw new Refusal('conflict', 'path_taken', sentence, { field: '--socket' })
  }
  if (await isDead(path)) return
  const sentence = `Cannot listen on the socket "${path}": another program does`
  throw new Refusal('conflict', 'address_in_use', sentence, { field: '--socket' })
}

/** Only what surely nobody listens on is dead: a full backlog or a missing right means that somebody is there. */
function isDead(path: string): Promise<boolean> {
  return new Promise(resolve => {
    const socket = connect(path)
    socket.once('connect', () => {
      socket.destroy()
      resolve(false)
    })
    socket.once('error', ({ code }: NodeJS.ErrnoException) => resolve(code === 'ECONNREFUSED' || code === 'ENOENT'))
  })
}

/** Another server may have taken the name since, if it was started while this one looked dead. */
async function remove(path: string, mine: Stats): Promise<void> {
  const found = await lstat(path).catch(() => null)
  if (found !== null && found.ino === mine.ino && found.dev === mine.dev) await unlink(path).catch(() => {})
}

function kindOf(found: Stats): string {
  return found.isDirectory() ? 'a directory' : found.isSymbolicLink() ? 'a symbolic link' : 'a file'
}

function refusalOf(error: NodeJS.ErrnoException, path: string): Error {
  const directory = dirname(path)
  switch (error.code) {
    case 'ENOENT':
      return invalidPath(path, `there is no directory "${directory}"; create it first`)
    case 'ENOTDIR':
      return invalidPath(path, `"${directory}" is no directory`)
    case 'EACCES':
    case 'EPERM':
      return invalidPath(path, `this user may not create a file in "${directory}"`)
    case 'EROFS':
      return invalidPath(path, 'its file system is read-only')
    case 'EOPNOTSUPP':
    case 'ENOTSUP':
    case 'ENXIO':
      return invalidPath(path, 'its file system has no sockets; choose a path below /run or /tmp')
    default:
      return error
  }
}

function invalidPath(path: string, why: string): Refusal {
  return new Refusal('invalid', 'invalid_address', `Cannot listen on the socket "${path}": ${why}`, { field: '--socket' })
}
