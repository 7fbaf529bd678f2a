/*
 * Limits the number of connections, and decides which one is closed when there are too many.
 *
 * A connection is KNOWN while its last request was authorised by a route that is not public. All others are ANONYMOUS:
 * those without a request, those that wait between two requests of public routes, and those with a request of a public
 * route in progress. Anonymous connections have a limit of their own, well below the number of descriptors of the
 * process. So a client that opens thousands of connections takes neither memory nor descriptors from deployments.
 * Nobody is refused because of others: a new connection is always accepted, and the oldest anonymous connection of the
 * address with the most of them is closed. The address is one that a client cannot forge (`witnessed`), so users
 * behind one proxy are distinguished as soon as their request has arrived.
 */
import type { Socket } from 'node:net'
import { networkOf } from './client-address.js'

/** Limits of connections. */
export interface CrowdLimits {
  /** Maximum number of all connections. */
  maxConnections: number
  /** Maximum number of connections of clients that are not authenticated. */
  maxAnonymous: number
  /** Maximum number of these from one address (IPv6: one /64) that is not a trusted proxy. */
  maxAnonymousPerAddress: number
}

/** The connections of a server, known and anonymous. */
export interface Crowd {
  /**
   * Adds a new connection from this address, and may close another one. `isProxy`: many clients may use the address.
   */
  add(socket: Socket, from: { address: string; isProxy: boolean }): void
  /** Sets whose request the connection carries: an address, or null for an authenticated client. */
  mark(socket: Socket, address: string | null): void
  /** Closes one connection that may be closed. Returns whether there was one. */
  makeRoom(): boolean
}

/** Creates an empty crowd. `isBusy` returns whether a request of the connection is being answered. */
export function createCrowd({ limits, isBusy }: { limits: CrowdLimits; isBusy(socket: Socket): boolean }): Crowd {
  /** Network of each connection, oldest first; null for a known client. */
  const all = new Map<Socket, string | null>()
  /** Anonymous connections of each network, oldest first. */
  const anonymous = new Map<string, Set<Socket>>()
  let anonymousCount = 0

  function put(socket: Socket, network: string | null): void {
    all.set(socket, network)
    if (network === null) return
    const others = anonymous.get(network)
    if (others === undefined) anonymous.set(network, new Set([socket]))
    else others.add(socket)
    anonymousCount++
  }

  function take(socket: Socket): void {
    const network = all.get(socket)
    if (network === undefined || network === null) return
    const others = anonymous.get(network)
    others?.delete(socket)
    if (others?.size === 0) anonymous.delete(network)
    anonymousCount--
  }

  function remove(socket: Socket): void {
    take(socket)
    all.delete(socket)
  }

  function close(socket: Socket): void {
    remove(socket)
    socket.destroy()
  }

  /**
   * Closes an anonymous connection; if there is none but the newest, an idle connection of a known client; otherwise
   * the newest itself.
   */
  function makeRoom(newest?: Socket): boolean {
    const oldest = oldestOf(largest(anonymous.values()))
    const victim = oldest === undefined || oldest === newest ? (idle() ?? oldest) : oldest
    if (victim !== undefined) close(victim)
    return victim !== undefined
  }

  function idle(): Socket | undefined {
    for (const [socket, network] of all) if (network === null && !isBusy(socket)) return socket
    return undefined
  }

  return {
    makeRoom: () => makeRoom(),
    add(socket, { address, isProxy }) {
      if (all.has(socket)) return
      const network = networkOf(address)
      put(socket, network)
      socket.once('close', () => remove(socket))
      const mine = anonymous.get(network) as Set<Socket>
      if (!isProxy && mine.size > limits.maxAnonymousPerAddress) close(oldestOf(mine) as Socket)
      else if (anonymousCount > limits.maxAnonymous || all.size > limits.maxConnections) makeRoom(socket)
    },
    mark(socket, address) {
      const before = all.get(socket)
      const network = address === null ? null : networkOf(address)
      if (before === undefined || before === network) return
      take(socket)
      put(socket, network)
    }
  }
}

function oldestOf(sockets: Set<Socket> | undefined): Socket | undefined {
  return sockets?.values().next().value as Socket | undefined
}

function largest(sets: Iterable<Set<Socket>>): Set<Socket> | undefined {
  let found: Set<Socket> | undefined
  for (const set of sets) if (found === undefined || set.size > found.size) found = set
  return found
}
