import * as http from 'node:http'
import * as https from 'node:https'
import { isIP } from 'node:net'
import { readAtMost } from '../base/async.js'
import { reasonOf, Refusal } from '../base/errors.js'
import { isLoopback } from '../http/core/headers.js'
import { forwardedHeader, type HubSigner, type Peer, signForHub } from './forwarded.js'

/** A request of a hub to another hub of its cluster. */
export interface HubRequest {
  method: 'GET' | 'POST'
  /** Path and query below the base path. */
  target: string
  /** Sent as JSON. */
  body?: unknown
  /** The first byte that is wanted; default: 0. */
  from?: number
  signal: AbortSignal
}

/** Sends requests to other hubs. */
export interface HubClient {
  /**
   * Resolves with the answer if its status is 200 or 206. Refuses: 503 `hub_unreachable`, and what the other hub refuses,
   * with its code.
   */
  ask(to: Peer, request: HubRequest): Promise<http.IncomingMessage>
  /** Sends a request and reads its answer as JSON. */
  json(to: Peer, request: HubRequest): Promise<unknown>
}

interface HubClientOptions {
  /** Signs for this hub. */
  signer: HubSigner
  /** Whether requests may cross the network unencrypted. */
  allowsHttp: boolean
  /** Certificates of the authorities that the other hubs are checked with, as PEM; undefined: those of the system. */
  ca?: string | undefined
  /** Maximum time in which nothing arrives. */
  silentMs?: number
}

const defaultSilentMs = 30_000
const maxAnswerBytes = 1024 * 1024

/** Creates the client of a hub. */
export function createHubClient(options: HubClientOptions): HubClient {
  const { signer, allowsHttp, silentMs = defaultSilentMs } = options

  async function ask(to: Peer, asked: HubRequest): Promise<http.IncomingMessage> {
    const { method, target, body, from = 0, signal } = asked
    const { url: address } = to
    const url = openHubUrl(address, allowsHttp)
    const isSecure = url.protocol === 'https:'
    const host = url.hostname.replace(/^\[|\]$/g, '')
    const text = body === undefined ? undefined : JSON.stringify(body)
    const typed = text === undefined ? {} : jsonHeaders(text)
    const { header, tailBytes, seal } = signForHub(signer, { to, client: null }, { method, target, headers: typed })
    const answer = await new Promise<http.IncomingMessage>((resolve, reject) => {
      const request = (isSecure ? https : http).request({
        host,
        port: url.port === '' ? (isSecure ? 443 : 80) : url.port,
        method,
        path: url.pathname.replace(/\/$/, '') + target,
        agent: false,
        signal,
        timeout: silentMs,
        headers: {
          host: url.host,
          connection: 'close',
          ...typed,
          [forwardedHeader]: header,
          ...(from > 0 && { range: `bytes=${from}-` }),
          ...(text !== undefined && { 'content-length': Buffer.byteLength(text) + tailBytes })
        },
        ...(isSecure && { ca: options.ca, ...(isIP(host) === 0 && { servername: host }) })
      })
      request.once('response', resolve)
      request.once('timeout', () => request.destroy(new Error(`silent for ${silentMs / 1000} s`)))
      request.on('error', error => reject(signal.aborted ? signal.reason : unreachable(address, error)))
      if (text === undefined) request.end()
      else {
        const sealed = seal()
        sealed.pipe(request)
        sealed.end(text)
      }
    })
    if (answer.statusCode === 200 || answer.statusCode === 206) return answer
    throw refusalIn(address, answer.statusCode as number, await textOf(answer).catch(() => ''))
  }

  return {
    ask,
    json: async (to, request) => JSON.parse(await textOf(await ask(to, request)))
  }
}

function jsonHeaders(text: string): http.IncomingHttpHeaders {
  return { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(text)) }
}

function unreachable(url: string, error: Error & { code?: string }): Refusal {
  const reason = error.code === undefined ? error.message : reasonOf(error)
  return new Refusal('unavailable', 'hub_unreachable', `Cannot reach the hub ${url}: ${reason}`, { cause: error })
}

function refusalIn(url: string, status: number, text: string): Refusal {
  try {
    const { error, code } = JSON.parse(text) as { error?: unknown; code?: unknown }
    if (typeof error === 'string' && typeof code === 'string') return new Refusal('unavailable', code, error)
  } catch {
    // It is not an answer of svc.
  }
  return new Refusal('unavailable', 'hub_unreachable', `Cannot use the hub ${url}: it answered ${status}`)
}

async function textOf(answer: http.IncomingMessage): Promise<string> {
  const tooLong = () => new Refusal('unavailable', 'hub_unreachable', 'The answer of the hub is too long')
  return (await readAtMost(answer, { maxBytes: maxAnswerBytes, tooLong })).toString()
}

/** Whether requests to this URL leave the machine unencrypted. */
export function isOpenUrl(url: string): boolean {
  const { protocol, hostname } = new URL(url)
  return protocol === 'http:' && hostname !== 'localhost' && !isLoopback(hostname.replace(/^\[|\]$/g, ''))
}

/** Returns the URL of a hub. Refuses `hub_not_encrypted`, before anything is sent. */
export function openHubUrl(url: string, allowsHttp: boolean): URL {
  if (!allowsHttp && isOpenUrl(url)) throw notEncrypted(url)
  return new URL(url)
}

function notEncrypted(url: string): Refusal {
  const sentence = `Nothing was sent to the hub "${url}": the connection would not be encrypted. Let it serve https (--tls-cert, --tls-key, --hub-url), or allow it on a private network with --allow-http`
  return new Refusal('unavailable', 'hub_not_encrypted', sentence)
}
