import type { Socket } from 'node:net'
import { Refusal } from '../../base/refusal.js'
import type { Exchange } from './exchange.js'

/** The open connections and their requests. A graceful stop needs to know them. */
export interface Connections {
  readonly isStopping: boolean
  /** Adds a connection. May be called again for one that was given back to node:http (`ignoreUpgrade`). */
  add(socket: Socket): void
  /** Adds a request. Returns false if the client has sent `maxPipelined` requests without reading the answers. */
  enter(exchange: Exchange): boolean
  leave(exchange: Exchange): void
  isBusy(socket: Socket): boolean
  /** Returns the requests of a connection that are being answered. */
  exchangesOf(socket: Socket): Iterable<Exchange>
  /**
   * Called after a long silence. Closes a connection without requests, or whose client does not read what is written. A
   * connection whose handler has nothing to send yet stays open.
   */
  expire(socket: Socket): void
  /**
   * Resolves when all connections are closed. Busy ones have `graceMs`, then they are destroyed. A handler whose
   * connection is closed has `handlerMs` more: what it does is then undone or complete.
   */
  drain(graceMs: number): Promise<void>
}

/** Creates an empty set of connections. */
export function createConnections({
  maxPipelined,
  handlerMs
}: {
  maxPipelined: number
  handlerMs: number
}): Connections {
  /**
   * Requests by connection. An array: there are a few at most (`maxPipelined`) and almost always one; a Set that grows
   * and shrinks is slower (bench/api).
   */
  const busy = new Map<Socket, Exchange[]>()
  /** Number of requests that arrived while an answer was in progress, since the last one that did not. */
  const pipelined = new WeakMap<Socket, number>()
  let isStopping = false
  let onEmpty: Array<() => void> = []
  /** Number of requests that are being answered, also of connections that are closed. */
  let running = 0
  let onIdle: Array<() => void> = []

  function remove(socket: Socket): void {
    for (const exchange of [...(busy.get(socket) ?? [])]) exchange.abort()
    busy.delete(socket)
    if (busy.size > 0) return
    for (const call of onEmpty) call()
    onEmpty = []
  }

  function stop(): void {
    isStopping = true
    for (const [socket, exchanges] of busy) {
      for (const exchange of [...exchanges]) {
        if (exchange.isLasting) exchange.abort(stopping())
        if (exchange.response.writableEnded || exchange.isLingering) socket.destroy()
      }
      if (exchanges.length === 0) closeSoon(socket)
    }
  }

  return {
    get isStopping() {
      return isStopping
    },
    add(socket) {
      if (busy.has(socket)) return
      busy.set(socket, [])
      socket.once('close', () => remove(socket))
    },
    enter(exchange) {
      const { socket } = exchange.request
      const exchanges = busy.get(socket)
      if (!exchanges?.length && socket.writableLength === 0) pipelined.delete(socket)
      else {
        const count = (pipelined.get(socket) ?? 0) + 1
        pipelined.set(socket, count)
        if (count > maxPipelined) return false
      }
      exchanges?.push(exchange)
      running++
      return true
    },
    isBusy: socket => (busy.get(socket)?.length ?? 0) > 0,
    leave(exchange) {
      running--
      if (running === 0) {
        for (const call of onIdle) call()
        onIdle = []
      }
      const { socket } = exchange.request
      const exchanges = busy.get(socket)
      const at = exchanges?.indexOf(exchange) ?? -1
      if (at !== -1) exchanges?.splice(at, 1)
      if (isStopping && exchanges?.length === 0) closeSoon(socket)
    },
    expire(socket) {
      if (socket.writableLength > 0 || !busy.get(socket)?.length) socket.destroy()
    },
    exchangesOf: socket => busy.get(socket) ?? [],
    async drain(graceMs) {
      stop()
      if (busy.size > 0) {
        const empty = new Promise<void>(resolve => onEmpty.push(resolve))
        const deadline = setTimeout(() => {
          for (const socket of busy.keys()) socket.destroy()
        }, graceMs)
        await empty
        clearTimeout(deadline)
      }
      if (running === 0) return
      await new Promise<void>(resolve => {
        const deadline = setTimeout(resolve, handlerMs)
        onIdle.push(() => {
          clearTimeout(deadline)
          resolve()
        })
      })
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
