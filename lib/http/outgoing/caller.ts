/*
 * Sends requests to one server over connections that are kept for the next one: the outgoing side of an agent. It follows
 * no redirects. The body is in memory; the answer is a stream, which its reader limits.
 */
import * as http from 'node:http'
import * as https from 'node:https'
import type { Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { parseUrl } from '../../base/text.js'
import { Refusal } from '../../base/errors.js'
import { matchesCidr, parseCidr } from '../core/headers.js'

interface OutgoingRequest {
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
export type Caller = ReturnType<typeof createCaller>

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
export function createCaller({ address, socketPath, environment, ca }: CallerOptions) {
  const base = new URL(address)
  const proxy = socketPath === undefined ? proxyFor(base, environment) : null
  const isSecure = (proxy === null ? base : proxy).protocol === 'https:'
  const options = { keepAlive: true, maxFreeSockets: maxKept, timeout: idleMs }
  const agent = isSecure ? new https.Agent(options) : new http.Agent(options)

  return {
    /** Returns the answer, its body unread, whatever its status. An abort, also while the body is read, destroys it. */
    async send({ method, path, headers, body, limitMs, signal }: OutgoingRequest): Promise<http.IncomingMessage> {
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
    /** Closes the connections that are kept. */
    close: (): void => agent.destroy()
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

/*
 * Begins a request to another server: directly, or through a proxy. A proxy gets the absolute form (RFC 9112 §3.2.2) for
 * http, and a tunnel (§3.2.3) for https. The command line and the agents of a fleet use it.
 */

/** The head of a request. */
interface Start {
  method: string
  headers: Record<string, string | number>
  /** Unix socket to connect to, instead of the host of the URL. */
  socketPath?: string
}

/** How a request gets to its server. */
interface Way {
  proxy: URL | null
  signal?: AbortSignal | undefined
  /** Time limit for the proxy to open a tunnel. */
  limitMs: number
  /** Certificates to trust instead of those that Node trusts, in PEM. */
  ca?: string | Buffer | undefined
  /**
   * Keeps connections for further requests; for the protocol of the server, or of the proxy. Tunnels are not kept. False: this
   * request has a connection of its own.
   */
  agent?: http.Agent | false | undefined
}

/** Begins a request. Refuses `unreachable` if the proxy opens no tunnel. The caller sends the body. */
export async function dial(url: URL, start: Start, way: Way): Promise<http.ClientRequest> {
  const { proxy, ca } = way
  const more = { ...(way.agent === undefined ? {} : { agent: way.agent }), ...(ca === undefined ? {} : { ca }) }
  if (proxy === null) return (url.protocol === 'https:' ? https : http).request(url, { ...start, ...more })
  if (url.protocol === 'https:') {
    const socket = await tunnel(url, proxy, way)
    const trusted = ca === undefined ? {} : { ca }
    const createConnection = () => connectTls({ socket, servername: serverName(url), ...trusted })
    return https.request(url, { ...start, createConnection })
  }
  return viaProxy(proxy, {
    method: start.method,
    path: url.href,
    headers: { ...start.headers, host: url.host },
    agent: way.agent
  })
}

function viaProxy(
  proxy: URL,
  { method, path, headers, agent }: Start & { path: string; agent?: Way['agent'] }
): http.ClientRequest {
  const credentials = `${decodeURIComponent(proxy.username)}:${decodeURIComponent(proxy.password)}`
  const authorized = proxy.username
    ? { ...headers, 'proxy-authorization': `Basic ${Buffer.from(credentials).toString('base64')}` }
    : headers
  const kept = agent === undefined ? {} : { agent }
  const to = { hostname: bareHost(proxy), port: proxy.port, method, path, headers: authorized, ...kept }
  return (proxy.protocol === 'https:' ? https : http).request(to)
}

async function tunnel(url: URL, proxy: URL, { signal, limitMs }: Way): Promise<Socket> {
  const authority = `${url.hostname}:${url.port || 443}`
  const request = viaProxy(proxy, { method: 'CONNECT', path: authority, headers: { host: authority } })
  request.setTimeout(limitMs, () => request.destroy(timedOut()))
  const abort = () => void request.destroy(signal?.reason as Error)
  signal?.addEventListener('abort', abort, { once: true })
  request.end()
  const [answer, socket] = await new Promise<[http.IncomingMessage, Socket]>((resolve, reject) => {
    request.once('connect', (answer: http.IncomingMessage, socket: Socket) => resolve([answer, socket]))
    request.once('response', answer => resolve([answer, answer.socket]))
    request.once('error', reject)
  }).finally(() => signal?.removeEventListener('abort', abort))
  socket.setTimeout(0)
  if (answer.statusCode === 200) return socket
  socket.destroy()
  throw new Refusal(
    'unavailable',
    'unreachable',
    `Cannot reach the server: the proxy ${proxy.host} answered ${answer.statusCode} ${answer.statusMessage}`
  )
}

/** Returns the server name for TLS. IP addresses have none (RFC 6066 §3). */
function serverName(url: URL): string | undefined {
  return /^[\d.]+$|^\[/.test(url.hostname) ? undefined : url.hostname
}

function bareHost(url: URL): string {
  return url.hostname.replace(/^\[|\]$/g, '')
}

/** Returns the error of a connection that was silent for too long. */
export function timedOut(): Error {
  return Object.assign(new Error('connection timed out'), { code: 'ETIMEDOUT' })
}

/** Environment variables, by name. */
type ProxyEnvironment = Readonly<Record<string, string | undefined>>

/**
 * Returns the proxy for requests to `target`, or null if there is none. Reads `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`
 * and `NO_PROXY` in either case; lower case wins, as in curl. There is no standard, so this implements what curl and
 * Go share.
 */
export function proxyFor(target: URL, env: ProxyEnvironment): URL | null {
  const name = target.protocol === 'https:' ? 'https_proxy' : 'http_proxy'
  const value = read(env, name) ?? read(env, 'all_proxy')
  if (value === undefined || isExempt(target, read(env, 'no_proxy') ?? '')) return null
  const text = /^[a-z][a-z0-9+.-]*:\/\//i.test(value) ? value : `http://${value}`
  const proxy = parseUrl(text)
  if (proxy === null || !/^https?:$/.test(proxy.protocol)) {
    const field = name.toUpperCase()
    const sentence = `${field} is invalid: the address of a proxy must begin with http:// or https://`
    throw new Refusal('usage', 'usage', sentence, { field })
  }
  return proxy
}

function read(env: ProxyEnvironment, name: string): string | undefined {
  return env[name] || env[name.toUpperCase()] || undefined
}

/**
 * Returns whether NO_PROXY lists the target. An entry is `*`, a name, which includes all names below it
 * (`.example.com`, `*.example.com`, `example.com`), an IP address, or a CIDR block; each may have a port. Addresses of
 * names are not looked up.
 */
function isExempt(target: URL, list: string): boolean {
  const host = bare(target.hostname)
  const port = target.port || (target.protocol === 'https:' ? '443' : '80')
  return list
    .toLowerCase()
    .split(/[\s,]+/)
    .filter(Boolean)
    .some(entry => {
      const [name, wantedPort] = splitPort(entry)
      return (wantedPort === null || wantedPort === port) && isWithin(host, name)
    })
}

/** Splits the port off an entry. An IPv6 address with a port is in brackets. */
function splitPort(entry: string): [name: string, port: string | null] {
  const [, bracketed, plain, port] = /^(?:(\[[^\]]*\](?:\/\d+)?)|([^:]*))(?::(\d+))?$/.exec(entry) ?? []
  return [bare(bracketed ?? plain ?? entry), port ?? null]
}

function isWithin(host: string, name: string): boolean {
  if (name === '*') return true
  const block = parseCidr(name)
  if (block !== undefined) return matchesCidr(host, [block])
  const domain = name.replace(/^\*?\./, '')
  return domain !== '' && (host === domain || host.endsWith(`.${domain}`))
}

function bare(host: string): string {
  return host.toLowerCase().replace(/[[\]]/g, '').replace(/\.$/, '')
}
