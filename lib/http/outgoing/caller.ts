/*
 * Sends requests to one server over connections that are kept for the next one: the outgoing side of an agent. It follows
 * no redirects. The body is in memory; the answer is a stream, which its reader limits.
 */
import * as http from 'node:http'
import * as https from 'node:https'
import { dial, timedOut } from './dial.js'
import { proxyFor, type ProxyEnvironment } from './proxy.js'

/** One request. */
export interface OutgoingRequest {
  method: string
  /** Path and query below the address of the server. */
  path: string
  headers: Record<string, string>
  body?: Uint8Array | undefined
  /** Maximum time until the head of the answer arrives. */
  limitMs: number
  signal: AbortSignal
}

/** Sends requests to one server. */
export interface Caller {
  /** Returns the answer, its body unread, whatever its status. An abort, also while the body is read, destroys it. */
  send(request: OutgoingRequest): Promise<http.IncomingMessage>
  /** Closes the connections that are kept. */
  close(): void
}

/** The server to call. */
export interface CallerOptions {
  /** Address with `http` or `https`, and the prefix of the server, without a final slash. */
  address: string
  /** Unix socket to connect to, instead of the address and any proxy. */
  socketPath?: string
  /** Where the proxies are named. */
  environment: ProxyEnvironment
  /** Returns the certificates to trust for the next connection instead of those that Node trusts, in PEM. */
  ca?: (() => Promise<string>) | undefined
}

const connectLimitMs = 15_000
const keepAliveMs = 30_000
/** A hub and its proxies close idle connections after a minute or more. */
const idleMs = 20_000
const maxKept = 2

/** Creates a caller. Refuses an invalid proxy in the environment (`usage`). */
export function createCaller({ address, socketPath, environment, ca }: CallerOptions): Caller {
  const base = new URL(address)
  const proxy = socketPath === undefined ? proxyFor(base, environment) : null
  const isSecure = (proxy === null ? base : proxy).protocol === 'https:'
  const options = { keepAlive: true, maxFreeSockets: maxKept, timeout: idleMs }
  const agent = isSecure ? new https.Agent(options) : new http.Agent(options)

  return {
    async send({ method, path, headers, body, limitMs, signal }) {
      signal.throwIfAborted()
      const all: Record<string, string | number> = { ...headers }
      if (body !== undefined || method !== 'GET') all['content-length'] = body?.length ?? 0
      const start = { method, headers: all, ...(socketPath === undefined ? {} : { socketPath }) }
      const way = { proxy, signal, limitMs: connectLimitMs, ca: await ca?.(), agent }
      const request = await dial(new URL(address + path), start, way)
      if (signal.aborted) {
        request.on('error', () => {}).destroy()
        throw signal.reason
      }
      return answerOf(request, { body, limitMs, signal })
    },
    close: () => agent.destroy()
  }
}

function answerOf(
  request: http.ClientRequest,
  { body, limitMs, signal }: Pick<OutgoingRequest, 'body' | 'limitMs' | 'signal'>
): Promise<http.IncomingMessage> {
  return new Promise((resolve, reject) => {
    let answer: http.IncomingMessage | undefined
    const limit = setTimeout(() => request.destroy(timedOut()), limitMs)
    const abort = (): void => void (answer ?? request).destroy(signal.reason as Error)
    signal.addEventListener('abort', abort, { once: true })
    request.once('close', () => {
      clearTimeout(limit)
      signal.removeEventListener('abort', abort)
      reject(Object.assign(new Error('the connection was closed'), { code: 'ECONNRESET' }))
    })
    // After the answer has begun, its reader gets the error.
    request.on('error', error => reject(signal.aborted ? signal.reason : error))
    request.once('socket', socket => {
      // The agent's own time limit is for connections that nobody uses.
      socket.setTimeout(0)
      socket.setKeepAlive(true, keepAliveMs)
    })
    request.once('response', response => {
      clearTimeout(limit)
      answer = response
      resolve(response)
    })
    request.end(body)
  })
}
