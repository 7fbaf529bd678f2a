import { createServer, type Server } from 'node:net'
import { networkInterfaces } from 'node:os'
import { randomBytes } from 'node:crypto'
import { constants, type Stats } from 'node:fs'
import { access, chmod, lstat, readdir, rename, stat, unlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { hasCode, reasonOf, Refusal } from '../../base/errors.js'
import { isListening, maxSocketPathBytes } from '../../base/socket-probe.js'

export interface ListenAddress {
  host: string
  /** Port. 0 chooses a free port. */
  port: number
}

/**
 * Refuses an address that `listen` would refuse, and leaves nothing behind. Used before a start that should change
 * nothing if it fails. Refuses: 409 `address_in_use`, 400 `invalid_address`.
 */
export function checkAddress(address: ListenAddress): Promise<void> {
  return new Promise((resolve, reject) => {
    const server = createServer(socket => socket.destroy())
    server.once('error', error => reject(listenError(error, address)))
    server.listen(address, () => server.close(() => resolve()))
  })
}

/** Explains why an address cannot be listened on, and what to do. Returns other errors unchanged. */
export function listenError(error: NodeJS.ErrnoException, address: ListenAddress): Error {
  const { host, port } = address
  const where = `Cannot listen on ${host.includes(':') ? `[${host}]` : host}:${port}`
  if (hasCode(error, 'EADDRINUSE')) {
    const sentence = `${where}: ${reasonOf(error)}. Stop the other program ("ss -ltnp" as root shows it), or choose another --port`
    return new Refusal('conflict', 'address_in_use', sentence, { field: '--port', cause: error })
  }
  const advice = advices[error.code ?? '']?.(address)
  if (advice === undefined) return error
  const field = hasCode(error, 'EACCES') ? '--port' : '--host'
  return new Refusal('invalid', 'invalid_address', `${where}: ${reasonOf(error)}. ${advice}`, { field, cause: error })
}

/** Returns the sentence that says what to do about an error. */
type Advice = (address: ListenAddress) => string

const chooseAddress: Advice = ({ host }) => {
  const all = host.includes(':') ? '' : ', or "::" for all of them'
  return `${ownAddresses()}. Choose one of them with --host${all}`
}

const advices: Record<string, Advice> = {
  EACCES: ({ port }) =>
    `Only root may listen on port ${port}. Choose a port above 1023 with --port and put a proxy in front of svc, ` +
    'or run the service with the capability CAP_NET_BIND_SERVICE (as "svc systemd" writes it)',
  EADDRNOTAVAIL: chooseAddress,
  EAFNOSUPPORT: chooseAddress,
  EINVAL: () => `${ownAddresses()}. An address that begins with "fe80:" needs its interface, as in fe80::1%eth0`,
  ENOTFOUND: chooseAddress,
  EAI_AGAIN: chooseAddress,
  EAI_NONAME: chooseAddress
}

const shownAddresses = 6

/** Returns a sentence with the addresses of this machine, which a user would look up next. */
function ownAddresses(): string {
  const all = Object.values(networkInterfaces())
    .flatMap(list => list ?? [])
    .map(({ address }) => address)
  if (all.length === 0)
    return 'This machine has no address: its interfaces are down ("ip link set lo up" gives it 127.0.0.1)'
  return `This machine has ${all.slice(0, shownAddresses).join(', ')}${all.length > shownAddresses ? ', …' : ''}`
}

/*
 * Listens on a Unix socket, a file that a proxy on this machine opens.
 *
 * The file remains after a server was killed, and bind(2) refuses an existing name. So the socket is bound to a
 * temporary name in the same directory, gets its mode, and is renamed to its path, where it replaces the file of a
 * killed server. So no client meets it with another mode, and the name is never free in between. Only a socket on
 * which nobody listens is replaced.
 */

/** Path and mode of a Unix socket. */
export interface SocketPlace {
  /** Absolute path. */
  path: string
  /** Mode of the file. Write permission allows a user to connect. */
  mode: number
}

/**
 * Refuses a path that `listenOnSocket` would refuse, and leaves nothing behind. Used before a start that should change
 * nothing if it fails.
 */
export async function checkSocketPath(path: string): Promise<void> {
  checkLength(path, besides(path))
  await checkFree(path)
  await access(dirname(path), constants.W_OK | constants.X_OK).catch((error: NodeJS.ErrnoException) => {
    throw refusalOf(error, path)
  })
}

/**
 * Listens on a socket. Resolves with a function that removes the file if it is still the server's own. Refuses with the
 * field `--socket`: 409 `address_in_use` if a server listens there, 409 `path_taken` if there is a file that is not a
 * socket, 400 `invalid_address` if the path cannot be that of a socket.
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
    // libuv reports EACCES for a missing directory.
    throw refusalOf(
      (await stat(dirname(path)).then(
        () => error,
        missing => missing
      )) as NodeJS.ErrnoException,
      path
    )
  }
}

const ownPattern = /^\.[0-9a-f]{6}$/

function besides(path: string): string {
  return join(dirname(path), `.${randomBytes(3).toString('hex')}`)
}

/** Removes what killed servers of this user left between binding a socket and renaming it. */
async function removeDead(directory: string): Promise<void> {
  for (const name of await readdir(directory)) {
    if (!ownPattern.test(name)) continue
    const found = await lstat(join(directory, name))
    if (found.isSocket() && found.uid === process.getuid?.() && !(await isListening(join(directory, name))))
      await unlink(join(directory, name))
  }
}

/** Listens. Fails with the system's error. */
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
  // The socket is first bound to a temporary name, which may be longer than the path.
  const bytes = Math.max(Buffer.byteLength(path), Buffer.byteLength(own))
  if (bytes > maxSocketPathBytes)
    throw invalidPath(path, `the path has ${bytes} bytes, the maximum is ${maxSocketPathBytes}. Choose a shorter path`)
}

/** Refuses the path unless nothing is there, or only a socket on which nobody listens. */
async function checkFree(path: string): Promise<void> {
  const found = await lstat(path).catch((error: NodeJS.ErrnoException) => {
    if (hasCode(error, 'ENOENT')) return null
    throw refusalOf(error, path)
  })
  if (found === null) return
  if (!found.isSocket()) {
    const sentence = `Cannot listen on the socket "${path}": ${kindOf(found)} already exists there. Choose another path`
    throw new Refusal('conflict', 'path_taken', sentence, { field: '--socket' })
  }
  if (!(await isListening(path))) return
  const sentence = `Cannot listen on the socket "${path}": address already in use. Stop the other program, or choose another path`
  throw new Refusal('conflict', 'address_in_use', sentence, { field: '--socket' })
}

/** Removes the socket, unless another server has taken its name since. */
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
      return invalidPath(path, `${reasonOf(error)}. Create the directory "${directory}" first`)
    case 'ENOTDIR':
      return invalidPath(path, `"${directory}" is not a directory`)
    case 'EACCES':
    case 'EPERM':
      return invalidPath(path, `${reasonOf(error)}. This user cannot create a file in "${directory}"`)
    case 'EROFS':
      return invalidPath(path, reasonOf(error))
    case 'EOPNOTSUPP':
    case 'ENOTSUP':
    case 'ENXIO':
      return invalidPath(path, `${reasonOf(error)} by its file system. Choose a path below /run or /tmp`)
    default:
      return error
  }
}

function invalidPath(path: string, why: string): Refusal {
  return new Refusal('invalid', 'invalid_address', `Cannot listen on the socket "${path}": ${why}`, {
    field: '--socket'
  })
}
