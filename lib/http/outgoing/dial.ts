/*
 * Begins a request to another server: directly, or through a proxy. A proxy gets the absolute form (RFC 9112 §3.2.2) for
 * http, and a tunnel (§3.2.3) for https. The command line and the agents of a fleet use it.
 */
import * as http from 'node:http'
import * as https from 'node:https'
import type { Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { Refusal } from '../../base/refusal.js'

/** The head of a request. */
export interface Start {
  method: string
  headers: Record<string, string | number>
  /** Unix socket to connect to, instead of the host of the URL. */
  socketPath?: string
}

/** How a request gets to its server. */
export interface Way {
  proxy: URL | null
  signal?: AbortSignal | undefined
  /** Time limit for the proxy to open a tunnel. */
  limitMs: number
  /** Certificates to trust instead of those that Node trusts, in PEM. */
  ca?: string | Buffer | undefined
  /** Keeps connections for further requests; for the protocol of the server, or of the proxy. Tunnels are not kept. */
  agent?: http.Agent | undefined
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
  { method, path, headers, agent }: Start & { path: string; agent?: http.Agent | undefined }
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
