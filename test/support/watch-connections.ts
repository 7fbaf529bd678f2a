/*
 * Loaded before a program (`node --import`), in its threads, too. Each connection that the program opens is a line of
 * the file that `CONNECTIONS` names: `host:port`, or `unix <path>`. A datagram socket is `udp`.
 */
import { appendFileSync } from 'node:fs'
import dgram from 'node:dgram'
import { Socket, type SocketConnectOpts } from 'node:net'

const file = process.env['CONNECTIONS'] as string
const note = (line: string): void => appendFileSync(file, `${line}\n`)

// Everything that speaks TCP or TLS in Node ends here: `net`, `tls`, `http`, `http2` and `fetch`.
const connect = Socket.prototype.connect as (this: Socket, ...given: unknown[]) => Socket
Socket.prototype.connect = function (this: Socket, ...given: unknown[]) {
  // `net.connect` passes its arguments on as one list.
  const [first, second] = (Array.isArray(given[0]) ? given[0] : given) as [unknown, unknown]
  const to = (typeof first === 'object' ? first : { port: first, host: second }) as Partial<SocketConnectOpts> & {
    host?: string
    port?: number
    path?: string
  }
  note(to.path ? `unix ${to.path}` : `${to.host ?? 'localhost'}:${to.port}`)
  return connect.apply(this, given)
}

const { createSocket } = dgram
dgram.createSocket = ((...given: Parameters<typeof createSocket>) => {
  note('udp')
  return createSocket(...given)
}) as typeof createSocket
