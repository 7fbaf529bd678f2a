/*
 * How many connections a server holds, and which of them it closes when there are too many.
 *
 * A connection is KNOWN while its last request was authorised by a route that is not public. All others are ANONYMOUS:
 * those without a request, those that wait between two requests of public routes, and those that are being answered one.
 * Anonymous connections have a limit of their own, well below the descriptors of the process, so that a client that opens
 * thousands of them takes neither memory nor descriptors from deployments. Nobody is refused for what others do: a new
 * connection is always accepted, and the oldest anonymous one of the address that has the most of them is closed. An
 * address is the one that a client cannot invent (`witnessed`), so users behind one proxy are told apart as soon as
 * their request is there.
 */
import type { Socket } from 'node:net'
import { networkOf } from './client-address.js'

export interface CrowdLimits {
  /** Connections in all. */
  maxConnections: number
  /** Connections of clients that have proved nothing yet. */
  maxAnonymous: number
  /** Of these, from one address (IPv6: one /64) that is no trusted proxy. */
  maxAnonymousPerAddress: number
}

export interface Crowd {
  /** Takes in a new connection from this address; `isProxy`: many clients may stand behind it. May close another. */
  add(socket: Socket, from: { address: string; isProxy: boolean }): void
  /** Whose request the connection carries: an address, or null for a client that is known. */
  mark(socket: Socket, address: string | null): void
  /** Closes one connection, if there is any that may be closed; returns whether there was. */
  makeRoom(): boolean
}

/** `isBusy`: whether a request of the connection is being answered. */
export function createCrowd({ limits, isBusy }: { limits: CrowdLimits; isBusy(socket: Socket): boolean }): Crowd {
  /** By connection, oldest first: the network it belongs to; null: known. */
  const all = new Map<Socket, string | null>()
  /** The anonymous ones of each network, oldest first. */
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

  /** An anonymous connection, then one of a known client that waits for its next request, and last the newest itself. */
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
