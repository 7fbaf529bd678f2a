/*
 * Sends the requests of an agent to its hub, each signed with the key of the agent. A session begins with the first
 * request, and again when the hub has forgotten it, or after `moveOn`, which chooses the next address.
 */
import type { IncomingMessage } from 'node:http'
import { randomBytes } from 'node:crypto'
import { Refusal } from '../../base/errors.js'
import { sha256 } from '../../base/digests.js'
import type { Caller } from '../../http/outgoing/caller.js'
import { fleetProtocol, type Asked, type SessionRequest } from '../../model/fleet-wire.js'
import { readSession, type Keyring } from './from-hub.js'
import type { AgentKey } from './identity.js'
import { signedHeaders } from './signatures.js'

/** One request of an agent. */
export interface HubRequest {
  method: 'GET' | 'POST'
  /** Path and query below the address of the hub. */
  path: string
  headers?: Record<string, string>
  /** Sent as JSON; or bytes. */
  body?: unknown
  /** Maximum time until the head of the answer arrives. */
  limitMs?: number
  signal: AbortSignal
}

/** The answer to a request, and what signatures of it name. */
export interface HubAnswer {
  answer: IncomingMessage
  asked: Asked
}

/** The hub as its agents see it. */
export interface HubClient {
  /** The address in use. */
  address(): string
  /** Returns a successful answer, its body unread. Refuses with the sentence of the hub, or `hub_unreachable`. */
  open(request: HubRequest): Promise<HubAnswer>
  /** Sends a request and reads its answer. */
  json<T>(request: HubRequest): Promise<T>
  /** Begins a session. Refuses as `open` does: `node_unknown`, if the hub has forgotten the node. */
  greet(signal: AbortSignal): Promise<void>
  /** Chooses the next address. The next request begins another session. */
  moveOn(): void
  /** Replaces the addresses. One that is in use stays in use. */
  setHubs(addresses: readonly string[]): void
  close(): void
}

/** Dependencies of the client. */
export interface HubClientNeeds {
  nodeId: string
  key: AgentKey
  keyring: Keyring
  hubs: readonly string[]
  createCaller(address: string): Caller
}

type Signing = Pick<Asked, 'session' | 'counter'>

const answerLimitMs = 60_000
const maxAnswerBytes = 4 * 1024 * 1024
const maxRefusalBytes = 64 * 1024
/** The hub did not get the head of a request in time. */
const requestTimeout = 408
/** How often a request is sent that the hub did not get: this process was too busy, or did not run at all. */
const maxSendings = 3

/** Creates the client of an agent. */
export function createHubClient({ nodeId, key, keyring, createCaller, ...given }: HubClientNeeds): HubClient {
  let hubs = [...given.hubs]
  let at = 0
  let caller: Caller | undefined
  let session: Promise<{ id: string; last: number }> | null = null

  const address = (): string => hubs[at] as string

  function leave(): void {
    caller?.close()
    caller = undefined
    session = null
  }

  /** Sends a request, again if it did not arrive in time; each sending is signed with a number of its own. */
  async function send(request: HubRequest, sign: () => Signing): Promise<HubAnswer> {
    for (let sending = 1; ; sending++) {
      const asked = { nodeId, ...sign() }
      const answer = await sendOnce(request, asked)
      if (answer.statusCode !== requestTimeout || sending === maxSendings) return { answer, asked }
      answer.resume()
    }
  }

  async function sendOnce(request: HubRequest, asked: Asked) {
    const { method, path, headers, body, limitMs = answerLimitMs, signal } = request
    const bytes = body === undefined ? undefined : body instanceof Uint8Array ? body : Buffer.from(JSON.stringify(body))
    const bodySha256 = sha256(bytes ?? Buffer.alloc(0)).toString('hex')
    const type = body instanceof Uint8Array ? 'application/octet-stream' : 'application/json'
    caller ??= createCaller(address())
    try {
      return await caller.send({
        method,
        path,
        headers: {
          ...headers,
          ...signedHeaders(key.key, { ...asked, method, path, bodySha256 }),
          ...(bytes === undefined ? {} : { 'content-type': type })
        },
        body: bytes,
        limitMs,
        signal
      })
    } catch (error) {
      signal.throwIfAborted()
      throw error instanceof Refusal ? error : unreachable(address(), error)
    }
  }

  async function begin(signal: AbortSignal): Promise<{ id: string; last: number }> {
    const body: SessionRequest = { protocol: fleetProtocol }
    const { answer, asked } = await send({ method: 'POST', path: '/api/agent/session', body, signal }, () => ({
      session: '-',
      counter: randomBytes(18).toString('base64url')
    }))
    if (answer.statusCode !== 200) throw await refusalOf(answer)
    const { counter } = asked
    const value = await readJson(answer, maxRefusalBytes)
    return { id: readSession(value, { address: address(), nodeId, counter }, keyring), last: 0 }
  }

  async function open(request: HubRequest): Promise<HubAnswer> {
    for (let attempt = 1; ; attempt++) {
      // A begin that fails must fail for each of its callers, and be tried again by the next one.
      const beginning = (session ??= begin(request.signal).catch((error: unknown) => {
        session = null
        throw error
      }))
      const current = await beginning
      const { answer, asked } = await send(request, () => ({ session: current.id, counter: ++current.last }))
      const status = answer.statusCode as number
      if (status >= 200 && status < 300) return { answer, asked }
      const refusal = await refusalOf(answer)
      if (refusal.code !== 'session_unknown' || attempt > 1) throw refusal
      if (session === beginning) session = null
    }
  }

  return {
    address,
    open,
    async json<T>(request: HubRequest): Promise<T> {
      return (await readJson((await open(request)).answer, maxAnswerBytes)) as T
    },
    async greet(signal) {
      await begin(signal)
    },
    moveOn() {
      at = (at + 1) % hubs.length
      if (hubs.length > 1) leave()
      session = null
    },
    setHubs(addresses) {
      const used = address()
      hubs = [...new Set(addresses)]
      at = Math.max(0, hubs.indexOf(used))
      if (address() !== used) leave()
    },
    close: leave
  }
}

/** Statuses that another attempt may change. */
const mayPass: ReadonlySet<number> = new Set([requestTimeout, 429])

/** Returns the refusal that an answer contains. */
export async function refusalOf(answer: IncomingMessage): Promise<Refusal> {
  const status = answer.statusCode as number
  const value = (await readJson(answer, maxRefusalBytes).catch(() => null)) as Record<string, unknown> | null
  const kind = status === 404 ? 'not_found' : status >= 500 || mayPass.has(status) ? 'unavailable' : 'forbidden'
  const retryAfterSeconds = Number(answer.headers['retry-after']) || undefined
  const details = retryAfterSeconds === undefined ? {} : { retryAfterSeconds }
  if (typeof value?.['error'] !== 'string') {
    const sentence = `The hub, or a proxy in front of it, answered ${status} ${answer.statusMessage ?? ''}`.trim()
    return new Refusal('unavailable', `http_${status}`, sentence, details)
  }
  const code = typeof value['code'] === 'string' ? value['code'] : `http_${status}`
  return new Refusal(kind, code, value['error'], details)
}

async function readJson(answer: IncomingMessage, maxBytes: number): Promise<unknown> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    chunks.push(chunk)
    bytes += chunk.length
    if (bytes > maxBytes) throw new Refusal('unavailable', 'bad_answer', 'The answer of the hub is too long')
  }
  return JSON.parse(Buffer.concat(chunks).toString('utf8'))
}

function unreachable(address: string, cause: unknown): Refusal {
  const why = cause instanceof Error ? cause.message : String(cause)
  return new Refusal('unavailable', 'hub_unreachable', `Cannot reach the hub ${address}: ${why}`, { cause })
}
