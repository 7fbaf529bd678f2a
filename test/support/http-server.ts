import { connect, type Socket } from 'node:net'
import type { Test } from 'tap'
import { Refusal } from '../../lib/base/errors.js'
import type { Route } from '../../lib/http/core/route.js'
import { HttpServer, type ServerEvent, type ServerOptions } from '../../lib/http/core/server.js'

export interface TestServer {
  server: HttpServer
  url: string
  port: number
  events: ServerEvent[]
}

/** Starts a server on loopback with some routes, closed after the test. `admin` routes need the token `secret`. */
export async function startServer(
  t: Test,
  routes: Route[],
  options: Partial<ServerOptions<string, unknown>> = {}
): Promise<TestServer> {
  const events: ServerEvent[] = []
  const server = new HttpServer<string, unknown>({
    routes,
    base: '',
    authorize(route, { headers }) {
      if (route.auth === 'public' || headers.authorization === 'Bearer secret') return { role: route.auth }
      throw new Refusal('unauthorized', 'unauthorized', 'A token is needed')
    },
    trustedProxies: () => [],
    log: event => void events.push(event),
    ...options
  })
  const { port } = await server.listen({ host: '127.0.0.1', port: 0 })
  t.teardown(() => server.close({ graceMs: 0 }))
  return { server, url: `http://127.0.0.1:${port}${options.base ?? ''}`, port, events }
}

export interface RawReply {
  status: number
  head: string
  body: string
  /** How the connection ended. */
  error: string | undefined
}

/** Sends bytes unchanged and reads until the server closes the connection. */
export function sendRaw(port: number, bytes: string | Buffer): Promise<RawReply> {
  return readRaw(
    connect({ port, host: '127.0.0.1' }, function (this: Socket) {
      this.write(bytes)
    })
  )
}

/** Reads a socket until its other end closes it. */
export function readRaw(socket: Socket): Promise<RawReply> {
  return new Promise(resolve => {
    let text = ''
    let error: string | undefined
    socket.on('data', chunk => (text += chunk.toString('latin1')))
    socket.on('error', (failure: NodeJS.ErrnoException) => (error = failure.code))
    socket.on('close', () => {
      const at = text.indexOf('\r\n\r\n')
      const head = at === -1 ? text : text.slice(0, at)
      resolve({ status: Number(/^HTTP\/1\.1 (\d+)/.exec(head)?.[1] ?? 0), head, body: text.slice(at + 4), error })
    })
  })
}
