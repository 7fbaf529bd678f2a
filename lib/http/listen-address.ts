import { createServer } from 'node:net'
import { networkInterfaces } from 'node:os'
import { Refusal } from '../base/refusal.js'

export interface ListenAddress {
  host: string
  /** 0: any that is free. */
  port: number
}

/**
 * Refuses where `listen` would, and leaves nothing behind: for a start that should change nothing where it cannot
 * succeed. Refuses: 409 `address_in_use`, 400 `invalid_address`.
 */
export function checkAddress(address: ListenAddress): Promise<void> {
  return new Promise((resolve, reject) => {
    const server = createServer(socket => socket.destroy())
    server.once('error', error => reject(listenError(error, address)))
    server.listen(address, () => server.close(() => resolve()))
  })
}

/** Why an address cannot be listened on: what is so, and what to do. An error that tells nothing new is given back. */
export function listenError(error: NodeJS.ErrnoException, address: ListenAddress): Error {
  const { host, port } = address
  const where = `Cannot listen on ${host.includes(':') ? `[${host}]` : host}:${port}`
  if (error.code === 'EADDRINUSE') {
    const sentence = `${where}: another program does; "ss -ltnp" as root shows which one. Stop it, or choose another port with --port`
    return new Refusal('conflict', 'address_in_use', sentence, { field: '--port', cause: error })
  }
  const why = sentences[error.code ?? '']?.(address)
  if (why === undefined) return error
  const field = error.code === 'EACCES' ? '--port' : '--host'
  return new Refusal('invalid', 'invalid_address', `${where}: ${why}`, { field, cause: error })
}

type Sentence = (address: ListenAddress) => string

const noSuchAddress: Sentence = ({ host }) => {
  const all = host.includes(':') ? '' : '; "::" means all of them'
  return `this machine has no such address; ${ownAddresses()}. Choose one with --host${all}`
}
const unknownName: Sentence = ({ host }) =>
  `the name "${host}" could not be looked up here; ${ownAddresses()}. Choose one with --host`

/** What the system calls it → what a person can do about it. */
const sentences: Record<string, Sentence> = {
  EACCES: ({ port }) =>
    `the system does not let this user have port ${port}. Choose one above 1023 with --port and let a proxy have that one, ` +
    'or run the service with the capability CAP_NET_BIND_SERVICE (as "svc systemd" writes it)',
  EADDRNOTAVAIL: noSuchAddress,
  EAFNOSUPPORT: noSuchAddress,
  EINVAL: () =>
    `the system does not take this address; ${ownAddresses()}. One that begins with "fe80:" needs its interface, as in fe80::1%eth0`,
  ENOTFOUND: unknownName,
  EAI_AGAIN: unknownName,
  EAI_NONAME: unknownName
}

const shownAddresses = 6

/** What one would look up next. */
function ownAddresses(): string {
  const all = Object.values(networkInterfaces()).flatMap(list => list ?? []).map(({ address }) => address)
  if (all.length === 0) return 'it has none at all, its interfaces are down ("ip link set lo up" gives it 127.0.0.1)'
  return `it has ${all.slice(0, shownAddresses).join(', ')}${all.length > shownAddresses ? ', …' : ''}`
}
