import * as http from 'node:http'
import * as https from 'node:https'
import { isIP } from 'node:net'
import { Refusal } from '../../base/refusal.js'
import { reasonOf } from '../../base/system-error.js'
import { forwardedHeader, writeForwarded } from './forwarded.js'

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
  ask(url: string, request: HubRequest): Promise<http.IncomingMessage>
  /** Sends a request and reads its answer as JSON. */
  json(url: string, request: HubRequest): Promise<unknown>
}

/** Options of `createHubClient`. */
export interface HubClientOptions {
  /** The key of `forwardKeyOf`. */
  key: Uint8Array
  /** The name of this hub. */
  hub: string
  /** Certificates of the authorities that the other hubs are checked with, as PEM; undefined: those of the system. */
  ca?: string | undefined
  /** Maximum time in which nothing arrives. */
  silentMs?: number
}

const defaultSilentMs = 30_000
const maxAnswerBytes = 1024 * 1024

/** Creates the client of a hub. */
export function createHubClient({ key, hub, ca, silentMs = defaultSilentMs }: HubClientOptions): HubClient {
  async function ask(address: string, asked: HubRequest): Promise<http.IncomingMessage> {
    const { method, target, body, from = 0, signal } = asked
    const url = new URL(address)
    const isSecure = url.protocol === 'https:'
    const host = url.hostname.replace(/^\[|\]$/g, '')
    const self = { address: 'hub', witnessed: 'hub', viaProxy: false, local: false }
    const client = { ...self, hub: { name: hub, isOwn: true, isSecure } }
    const text = body === undefined ? undefined : JSON.stringify(body)
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
          [forwardedHeader]: writeForwarded(key, client, { method, target, headers: {} }),
          ...(from > 0 && { range: `bytes=${from}-` }),
          ...(text !== undefined && { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) })
        },
        ...(isSecure && { ca, ...(isIP(host) === 0 && { servername: host }) })
      })
      request.once('response', resolve)
      request.once('timeout', () => request.destroy(new Error(`silent for ${silentMs / 1000} s`)))
      request.on('error', error => reject(signal.aborted ? signal.reason : unreachable(address, error)))
      request.end(text)
    })
    if (answer.statusCode === 200 || answer.statusCode === 206) return answer
    throw refusalIn(address, answer.statusCode as number, await textOf(answer).catch(() => ''))
  }

  return {
    ask,
    json: async (url, request) => JSON.parse(await textOf(await ask(url, request)))
  }
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
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > maxAnswerBytes) throw new Refusal('unavailable', 'hub_unreachable', 'The answer of the hub is too long')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString()
}
