import { readFileSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { Refusal } from '../../base/errors.js'
import { networkOf } from './headers.js'
import type { Exchange } from './exchange.js'

/** The open connections and their requests. A graceful stop needs to know them. */
export class Connections {
  readonly #limits: { maxPipelined: number; handlerMs: number }
  /**
   * Requests by connection. An array: there are a few at most (`maxPipelined`) and almost always one; a Set that grows
   * and shrinks is slower (bench/api).
   */
  readonly #busy = new Map<Socket, Exchange[]>()
  /** Number of requests that arrived while an answer was in progress, since the last one that did not. */
  readonly #pipelined = new WeakMap<Socket, number>()
  #isStopping = false
  #onEmpty: Array<() => void> = []
  /** Number of requests that are being answered, also of connections that are closed. */
  #running = 0
  #onIdle: Array<() => void> = []

  constructor(limits: { maxPipelined: number; handlerMs: number }) {
    this.#limits = limits
  }

  get isStopping() {
    return this.#isStopping
  }

  /** Adds a connection. May be called again for one that was given back to node:http (`ignoreUpgrade`). */
  add(socket: Socket): void {
    if (this.#busy.has(socket)) return
    this.#busy.set(socket, [])
    socket.once('close', () => this.#remove(socket))
  }

  /** Adds a request. Returns false if the client has sent `maxPipelined` requests without reading the answers. */
  enter(exchange: Exchange): boolean {
    const { socket } = exchange.request
    const exchanges = this.#busy.get(socket)
    if (!exchanges?.length && socket.writableLength === 0) this.#pipelined.delete(socket)
    else {
      const count = (this.#pipelined.get(socket) ?? 0) + 1
      this.#pipelined.set(socket, count)
      if (count > this.#limits.maxPipelined) return false
    }
    exchanges?.push(exchange)
    this.#running++
    return true
  }

  isBusy(socket: Socket): boolean {
    return (this.#busy.get(socket)?.length ?? 0) > 0
  }

  leave(exchange: Exchange): void {
    this.#running--
    if (this.#running === 0) {
      for (const call of this.#onIdle) call()
      this.#onIdle = []
    }
    const { socket } = exchange.request
    const exchanges = this.#busy.get(socket)
    const at = exchanges?.indexOf(exchange) ?? -1
    if (at !== -1) exchanges?.splice(at, 1)
    if (this.#isStopping && exchanges?.length === 0) closeSoon(socket)
  }

  /**
   * Called after a long silence. Closes a connection without requests, or whose client does not read what is written. A
   * connection whose handler has nothing to send yet stays open.
   */
  expire(socket: Socket): void {
    if (socket.writableLength > 0 || !this.#busy.get(socket)?.length) socket.destroy()
  }

  /** Returns the requests of a connection that are being answered. */
  exchangesOf(socket: Socket): Iterable<Exchange> {
    return this.#busy.get(socket) ?? []
  }

  /**
   * Resolves when all connections are closed. Busy ones have `graceMs`, then they are destroyed. A handler whose
   * connection is closed has `handlerMs` more: what it does is then undone or complete.
   */
  async drain(graceMs: number): Promise<void> {
    this.#stop()
    if (this.#busy.size > 0) {
      const empty = new Promise<void>(resolve => this.#onEmpty.push(resolve))
      const deadline = setTimeout(() => {
        for (const socket of this.#busy.keys()) socket.destroy()
      }, graceMs)
      await empty
      clearTimeout(deadline)
    }
    if (this.#running === 0) return
    await new Promise<void>(resolve => {
      const deadline = setTimeout(resolve, this.#limits.handlerMs)
      this.#onIdle.push(() => {
        clearTimeout(deadline)
        resolve()
      })
    })
  }

  #remove(socket: Socket): void {
    for (const exchange of [...(this.#busy.get(socket) ?? [])]) exchange.abort()
    this.#busy.delete(socket)
    if (this.#busy.size > 0) return
    for (const call of this.#onEmpty) call()
    this.#onEmpty = []
  }

  #stop(): void {
    this.#isStopping = true
    for (const [socket, exchanges] of this.#busy) {
      for (const exchange of [...exchanges]) {
        if (exchange.isLasting) exchange.abort(stopping())
        if (exchange.response.writableEnded || exchange.isLingering) socket.destroy()
      }
      if (exchanges.length === 0) closeSoon(socket)
    }
  }
}

/** Closes the connection when everything is written. (`destroySoon` does the same, but Bun does not have it.) */
function closeSoon(socket: Socket): void {
  socket.end(() => socket.destroy())
}

/** Returns the refusal with which a lasting stream ends when the server stops. */
export function stopping(): Refusal {
  return new Refusal('unavailable', 'stopping', 'Stream closed: the server is shutting down')
}

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
export type Crowd = ReturnType<typeof createCrowd>

/** Creates an empty crowd. `isBusy` returns whether a request of the connection is being answered. */
export function createCrowd({ limits, isBusy }: { limits: CrowdLimits; isBusy(socket: Socket): boolean }) {
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
    /** Closes one connection that may be closed. Returns whether there was one. */
    makeRoom: (): boolean => makeRoom(),

    /**
     * Adds a new connection from this address, and may close another one. `isProxy`: many clients may use the address.
     */
    add(socket: Socket, { address, isProxy }: { address: string; isProxy: boolean }): void {
      if (all.has(socket)) return
      const network = networkOf(address)
      put(socket, network)
      socket.once('close', () => remove(socket))
      const mine = anonymous.get(network) as Set<Socket>
      if (!isProxy && mine.size > limits.maxAnonymousPerAddress) close(oldestOf(mine) as Socket)
      else if (anonymousCount > limits.maxAnonymous || all.size > limits.maxConnections) makeRoom(socket)
    },

    /** Sets whose request the connection carries: an address, or null for an authenticated client. */
    mark(socket: Socket, address: string | null): void {
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

/** Limit on systems that do not report how many descriptors a process may have. */
const assumedDescriptors = 4096
const mostConnections = 8192
const mostAnonymous = 1024
const mostAnonymousPerAddress = 128

/** Returns how many files and sockets this process may have open. Node has raised the limit to the system's maximum. */
export function descriptorLimit(): number {
  try {
    const found = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'latin1'))?.[1]
    return found === undefined ? assumedDescriptors : Number(found)
  } catch {
    return assumedDescriptors
  }
}

/**
 * Returns the limits of connections for this number of descriptors. Half of them are for connections, the other half
 * for work: files, scripts, the database.
 */
export function crowdLimits(descriptors: number = descriptorLimit()): CrowdLimits {
  const maxConnections = Math.min(mostConnections, Math.floor(descriptors / 2))
  const maxAnonymous = Math.min(mostAnonymous, Math.floor(maxConnections / 2))
  return {
    maxConnections,
    maxAnonymous,
    maxAnonymousPerAddress: Math.min(mostAnonymousPerAddress, Math.floor(maxAnonymous / 2))
  }
}

/** Whether a failure is a lack of descriptors, of this process or of the whole system. */
export function isOutOfDescriptors(error: unknown): boolean {
  const code = (error as NodeJS.ErrnoException | null)?.code
  return code === 'EMFILE' || code === 'ENFILE'
}

/**
 * Limits of reading the rest of a body after the request was refused.
 *
 * If a socket is closed while it contains unread bytes, the kernel answers with a reset, and a reset overtakes the
 * reply. The client, which is still uploading, sees "connection reset" and never learns why. So the rest of the body is
 * read and dropped for a while, as nginx does (`lingering_close`). After `maxBytes` nothing more is read, but the
 * socket stays open until one of the time limits has passed. A client that reads while it sends has the reply long
 * before.
 */
export interface LingerLimits {
  /** Maximum number of bytes of the body that are read and dropped. */
  maxBytes: number
  /** Maximum time after the reply. */
  totalMs: number
  /** Maximum time without a byte from the client. */
  idleMs: number
}

/** Default limits of reading the rest of a body. */
export const defaultLingerLimits: LingerLimits = { maxBytes: 64 * 1024 * 1024, totalMs: 30_000, idleMs: 5_000 }

/**
 * Drops the rest of the body. Resolves with the reason why it stopped: everything was read, the client is gone, or a
 * limit was reached.
 */
export function dropRest(request: IncomingMessage, limits: LingerLimits): Promise<'read' | 'gone' | 'limit'> {
  if (request.readableEnded) return Promise.resolve('read')
  if (request.destroyed) return Promise.resolve('gone')
  return new Promise(resolve => {
    let droppedBytes = 0
    const total = setTimeout(() => stop('limit'), limits.totalMs)
    const idle = setTimeout(() => stop('limit'), limits.idleMs)
    const onData = (chunk: Buffer): void => {
      idle.refresh()
      droppedBytes += chunk.length
      if (droppedBytes > limits.maxBytes) request.pause()
    }
    const onEnd = (): void => stop('read')
    const onClose = (): void => stop('gone')
    function stop(why: 'read' | 'gone' | 'limit'): void {
      clearTimeout(total)
      clearTimeout(idle)
      request.off('data', onData).off('end', onEnd).off('close', onClose)
      resolve(why)
    }
    request.on('error', onClose).on('close', onClose).on('end', onEnd).on('data', onData)
    request.resume()
  })
}
