import type { Socket } from 'node:net'
import { Refusal } from '../base/refusal.js'
import type { Exchange } from './exchange.js'

/** The open connections and what is going on in each: what a graceful stop must know. */
export interface Connections {
  readonly isStopping: boolean
  /** May be told of a connection again: one that was given back to node:http (`ignoreUpgrade`). */
  add(socket: Socket): void
  /** Takes in a request; false: the client has sent `maxPipelined` requests without reading the answers. */
  enter(exchange: Exchange): boolean
  leave(exchange: Exchange): void
  isBusy(socket: Socket): boolean
  /** The requests of a connection that are being answered. */
  exchangesOf(socket: Socket): Iterable<Exchange>
  /**
   * After a long silence: ends a connection on which nothing goes on, or whose client takes nothing of what is written.
   * One whose handler has nothing to say yet goes on.
   */
  expire(socket: Socket): void
  /** Resolves when no connection is left; those that are busy have `graceMs`, then they are broken off. */
  drain(graceMs: number): Promise<void>
}

export function createConnections({ maxPipelined }: { maxPipelined: number }): Connections {
  /** A few at most (`maxPipelined`), and one nearly always: a Set that grows and shrinks takes longer (bench/api). */
  const busy = new Map<Socket, Exchange[]>()
  /** Requests that came while an answer was under way, since the last one that did not. */
  const pipelined = new WeakMap<Socket, number>()
  let isStopping = false
  let onEmpty: Array<() => void> = []

  function remove(socket: Socket): void {
    for (const exchange of [...busy.get(socket) ?? []]) exchange.abort()
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
      return true
    },
    isBusy: socket => (busy.get(socket)?.length ?? 0) > 0,
    leave(exchange) {
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
      if (busy.size === 0) return
      const empty = new Promise<void>(resolve => onEmpty.push(resolve))
      const deadline = setTimeout(() => {
        for (const socket of busy.keys()) socket.destroy()
      }, graceMs)
      await empty
      clearTimeout(deadline)
    }
  }
}

/** Once all is written. (`destroySoon` does the same, but Bun has none.) */
function closeSoon(socket: Socket): void {
  socket.end(() => socket.destroy())
}

/** Why a stream that lasts ends before its time. */
export function stopping(): Refusal {
  return new Refusal('unavailable', 'stopping', 'The stream ends: the server is shutting down')
}
