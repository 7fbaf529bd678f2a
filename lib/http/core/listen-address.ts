import { createServer } from 'node:net'
import { networkInterfaces } from 'node:os'
import { hasCode, reasonOf, Refusal } from '../../base/errors.js'

/** An address to listen on. */
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
