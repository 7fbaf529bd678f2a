/*
 * HTTPS: node:https with the limits of the plain server, over a certificate that is renewed while it runs.
 *
 * A connection is looked at before TLS gets it: its first byte tells a TLS record (22, RFC 8446 §5.1) from the letter
 * that a request of plain HTTP begins with, and whoever forgot the "s" of "https" is told so. Meanwhile the files of the
 * certificate are looked at, so that the handshake already shows a new one.
 */
import { createServer } from 'node:https'
import type { Server, ServerOptions } from 'node:https'
import type { Socket } from 'node:net'
import { bunVersion } from '../base/runtime.js'
import { hangUp } from './broken-request.js'
import { contextOf } from './certificate.js'
import type { Certificate } from './certificate.js'

export interface SecureServerOptions {
  certificate: Certificate
  /** Before each handshake: resolves with another certificate, where there is one by now. */
  renewed(): Promise<Certificate | null>
}

export function createSecureServer(options: ServerOptions, { certificate, renewed }: SecureServerOptions): Server {
  const limitMs = options.headersTimeout as number
  const server = createServer({ ...options, ...contextOf(certificate), handshakeTimeout: limitMs })
  // Bun hands out no connection before its handshake; what is below stays undone there.
  if (bunVersion !== undefined) return server
  const [shakeHands] = server.listeners('connection') as [(this: Server, socket: Socket) => void]
  /** Connections before their handshake is over. */
  const early = new Map<string, Socket>()

  server.removeAllListeners('connection').on('connection', (socket: Socket) => {
    const key = keyOf(socket)
    early.set(key, socket)
    if (early.size > maxEarly) early.values().next().value?.destroy()
    socket.once('close', () => void (early.get(key) === socket && early.delete(key)))
    void receive(socket)
  })
  server.on('secureConnection', socket => void early.delete(keyOf(socket)))

  async function receive(socket: Socket): Promise<void> {
    // Whoever goes away is noticed by `close`; without a listener the error would end the process.
    socket.on('error', () => {})
    const [first, next] = await Promise.all([firstByte(socket, limitMs), renewed()])
    if (next !== null) server.setSecureContext(contextOf(next))
    if (first === null || socket.destroyed) return void socket.destroy()
    if (isLetter(first)) hangUp(socket, notSecure)
    else shakeHands.call(server, socket)
  }

  // Whoever has not shaken hands by then has asked for nothing.
  const close = server.close
  server.close = done => {
    for (const socket of early.values()) socket.destroy()
    return close.call(server, done)
  }
  return server
}

/** Handshakes under way at a time; the oldest gives way. Connections are counted (crowd.ts) when theirs is over. */
const maxEarly = 256

const notSecure = {
  status: '400 Bad Request',
  code: 'invalid_request',
  sentence: 'The request cannot be read: this port speaks TLS, so the address begins with https://'
}

/** Leaves the byte where it was; null: none came. */
function firstByte(socket: Socket, limitMs: number): Promise<number | null> {
  return new Promise(resolve => {
    const give = (byte: number | null): void => {
      socket.off('readable', look).off('close', leave).off('end', leave).off('timeout', leave).setTimeout(0)
      resolve(byte)
    }
    const leave = (): void => give(null)
    const look = (): void => {
      const first = socket.read(1) as Buffer | null
      if (first === null) return
      socket.unshift(first)
      give(first[0] as number)
    }
    socket.on('readable', look).on('close', leave).on('end', leave).on('timeout', leave).setTimeout(limitMs)
  })
}

function isLetter(byte: number): boolean {
  return byte >= 0x41 && byte <= 0x5a
}

/** The other end, by which a connection is known before and after TLS has wrapped it. */
function keyOf(socket: Socket): string {
  return `${socket.remoteAddress} ${socket.remotePort}`
}
