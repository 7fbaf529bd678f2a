/*
 * HTTPS: node:https with the limits of the plain server, and with a certificate that is renewed while it runs.
 *
 * A connection is checked before TLS gets it. Its first byte distinguishes a TLS record (22, RFC 8446 §5.1) from the
 * first letter of a plain HTTP request, and such a client is told to use "https". Meanwhile the files of the
 * certificate are checked, so that the handshake already uses a new one.
 */
import { createServer, type Server, type ServerOptions } from 'node:https'
import type { Socket } from 'node:net'
import { bunVersion } from '../../base/runtime.js'
import { hangUp } from '../core/send.js'
import { contextOf, type Certificate } from './certificate.js'

/** The certificate of a secure server. */
export interface SecureServerOptions {
  certificate: Certificate
  /** Called before each handshake. Resolves with a new certificate, or null if it has not changed. */
  renewed(): Promise<Certificate | null>
}

/** Creates an HTTPS server. `options` are those of the plain server. */
export function createSecureServer(options: ServerOptions, { certificate, renewed }: SecureServerOptions): Server {
  const limitMs = options.headersTimeout as number
  const server = createServer({ ...options, ...contextOf(certificate), handshakeTimeout: limitMs })
  // Bun hands out no connection before its handshake, so the following is not done there.
  if (bunVersion !== undefined) return server
  const [shakeHands] = server.listeners('connection') as [(this: Server, socket: Socket) => void]
  /** Connections whose handshake has not finished. */
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
    // `close` reports that the client is gone. Without a listener the error would end the process.
    socket.on('error', () => {})
    const [first, next] = await Promise.all([firstByte(socket, limitMs), renewed()])
    if (next !== null) server.setSecureContext(contextOf(next))
    if (first === null || socket.destroyed) return void socket.destroy()
    if (isLetter(first)) hangUp(socket, notSecure)
    else shakeHands.call(server, socket)
  }

  // Clients without a finished handshake have not requested anything.
  const close = server.close
  server.close = done => {
    for (const socket of early.values()) socket.destroy()
    return close.call(server, done)
  }
  return server
}

/**
 * Maximum number of concurrent handshakes; above it the oldest is closed. Connections are counted (connections.ts) after
 * their handshake.
 */
const maxEarly = 256

const notSecure = {
  status: '400 Bad Request',
  code: 'invalid_request',
  sentence: 'Cannot read the request: this port expects TLS. Use an address that begins with https://'
}

/** Returns the first byte without consuming it, or null if none arrives. */
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

/** Returns the client's address and port, which identify a connection before and after TLS wraps it. */
function keyOf(socket: Socket): string {
  return `${socket.remoteAddress} ${socket.remotePort}`
}
