/*
 * Sends the requests of an agent to its hub, each signed with the key of the agent. A session begins with the first
 * request, and again when the hub has forgotten it, or after `moveOn`, which chooses the next address.
 */

import type { IncomingMessage } from 'node:http'
import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { readAtMost } from '../../base/async.js'
import { invalid, reasonOf, Refusal } from '../../base/errors.js'
import { sha256 } from '../../base/digests.js'
import type { Caller } from '../../http/outgoing/caller.js'
import {
  type Asked,
  type DesiredLine,
  type EnrollAnswer,
  type EnrollRequest,
  fleetProtocol,
  type SessionRequest,
  silentAfterMs
} from '../../model/fleet-wire.js'
import { createLineReader } from '../../base/shared/api.js'
import { createStreamReader, type Keyring, notHub, readSession, signedHeaders } from './from-hub.js'
import type { AgentKey, Identity } from './identity.js'

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

/** The hub as its agents see it. */
export class HubClient {
  readonly #needs: HubClientNeeds
  #hubs: string[]
  #at = 0
  #caller: Caller | undefined
  #session: Promise<{ id: string; last: number }> | null = null

  constructor(needs: HubClientNeeds) {
    this.#needs = needs
    this.#hubs = [...needs.hubs]
  }

  /** The address in use. */
  address(): string {
    return this.#hubs[this.#at] as string
  }

  /** Returns a successful answer, its body unread. Refuses with the sentence of the hub, or `hub_unreachable`. */
  async open(request: HubRequest): Promise<HubAnswer> {
    for (let attempt = 1; ; attempt++) {
      // A begin that fails must fail for each of its callers, and be tried again by the next one.
      const beginning = (this.#session ??= this.#begin(request.signal).catch((error: unknown) => {
        this.#session = null
        throw error
      }))
      const current = await beginning
      const { answer, asked } = await this.#send(request, () => ({ session: current.id, counter: ++current.last }))
      const status = answer.statusCode as number
      if (status >= 200 && status < 300) return { answer, asked }
      const refusal = await refusalOf(answer)
      if (refusal.code !== 'session_unknown' || attempt > 1) throw refusal
      if (this.#session === beginning) this.#session = null
    }
  }

  /** Sends a request and reads its answer. */
  async json<T>(request: HubRequest): Promise<T> {
    return (await readJson((await this.open(request)).answer, maxAnswerBytes)) as T
  }

  /** Begins a session. Refuses as `open` does: `node_unknown`, if the hub has forgotten the node. */
  async greet(signal: AbortSignal): Promise<void> {
    await this.#begin(signal)
  }

  /** Chooses the next address. The next request begins another session. */
  moveOn(): void {
    this.#at = (this.#at + 1) % this.#hubs.length
    if (this.#hubs.length > 1) this.close()
    this.#session = null
  }

  /** Replaces the addresses. One that is in use stays in use. */
  setHubs(addresses: readonly string[]): void {
    const used = this.address()
    this.#hubs = [...new Set(addresses)]
    this.#at = Math.max(0, this.#hubs.indexOf(used))
    if (this.address() !== used) this.close()
  }

  close(): void {
    this.#caller?.close()
    this.#caller = undefined
    this.#session = null
  }

  /** Sends a request, again if it did not arrive in time; each sending is signed with a number of its own. */
  async #send(request: HubRequest, sign: () => Signing): Promise<HubAnswer> {
    for (let sending = 1; ; sending++) {
      const asked = { nodeId: this.#needs.nodeId, ...sign() }
      const answer = await this.#sendOnce(request, asked)
      if (answer.statusCode !== requestTimeout || sending === maxSendings) return { answer, asked }
      answer.resume()
    }
  }

  async #sendOnce(request: HubRequest, asked: Asked) {
    const { createCaller, key } = this.#needs
    const { method, path, headers, body, limitMs = answerLimitMs, signal } = request
    const bytes = body === undefined ? undefined : body instanceof Uint8Array ? body : Buffer.from(JSON.stringify(body))
    const bodySha256 = sha256(bytes ?? Buffer.alloc(0)).toString('hex')
    const type = body instanceof Uint8Array ? 'application/octet-stream' : 'application/json'
    this.#caller ??= createCaller(this.address())
    try {
      return await this.#caller.send({
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
      throw error instanceof Refusal ? error : unreachable(this.address(), error)
    }
  }

  async #begin(signal: AbortSignal): Promise<{ id: string; last: number }> {
    const { nodeId, keyring } = this.#needs
    const body: SessionRequest = { protocol: fleetProtocol }
    const { answer, asked } = await this.#send({ method: 'POST', path: '/api/agent/session', body, signal }, () => ({
      session: '-',
      counter: randomBytes(18).toString('base64url')
    }))
    if (answer.statusCode !== 200) throw await refusalOf(answer)
    const { counter } = asked
    const value = await readJson(answer, maxRefusalBytes)
    return { id: readSession(value, { address: this.address(), nodeId, counter }, keyring), last: 0 }
  }
}

/** Statuses that another attempt may change. */
const mayPass: ReadonlySet<number> = new Set([requestTimeout, 429])

/** Returns the refusal that an answer contains. */
async function refusalOf(answer: IncomingMessage): Promise<Refusal> {
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
  const tooLong = () => new Refusal('unavailable', 'bad_answer', 'The answer of the hub is too long')
  return JSON.parse((await readAtMost(answer, { maxBytes, tooLong })).toString())
}

function unreachable(address: string, cause: unknown): Refusal {
  return new Refusal('unavailable', 'hub_unreachable', `Cannot reach the hub ${address}: ${reasonOf(cause)}`, { cause })
}

/*
 * Keeps the stream from the hub open (`GET /api/agent/desired`), and passes its lines on. A line that is not one of the hub
 * in its place ends the stream.
 *
 * STATES     connecting   a request is on its way
 *            open         lines arrive; the hub sends one at least every 15 s, and after 45 s of silence it is left
 *            waiting      after a stream that was open: up to 10 s, so that a hub that starts again is not flooded; after
 *                         attempts that failed: longer each time
 *
 * Each attempt after a failure goes to the next address of a hub.
 */

/** The waits of a connection, in milliseconds. Tests shorten them. */
export interface ConnectionWaits {
  /** Maximum wait after a stream that was open. */
  jitterMs: number
  /** Wait after the first attempt that failed; it doubles with each further one. */
  firstMs: number
  longestMs: number
  /** Time without a line after which the stream is left. */
  silentMs: number
}

const defaultWaits: ConnectionWaits = {
  jitterMs: 10_000,
  firstMs: 1000,
  longestMs: 30_000,
  silentMs: silentAfterMs
}

export interface ConnectionNeeds {
  client: Pick<HubClient, 'open' | 'moveOn' | 'address'>
  keyring: Keyring
  /** Names this start of the agent: a copy of its data directory has another one. */
  instance: string
  take(line: DesiredLine): void
  /** Called when a stream is open, and when it has ended. */
  onOpen(): void
  onEnd(): void
  /** Returns a number from 0 to 1. */
  random(): number
  waits?: Partial<ConnectionWaits>
  info(line: string): void
  warn(line: string): void
}

/** Characters of a line; a longer one is not a line of a hub. */
const maxLineLength = 512 * 1024

/** Keeps the stream open until the signal aborts. Never rejects. */
export async function keepConnected(needs: ConnectionNeeds, signal: AbortSignal): Promise<void> {
  const { client, random, info, warn } = needs
  const waits = { ...defaultWaits, ...needs.waits }
  let failed = 0
  let lastWarning = ''
  while (!signal.aborted) {
    let wasOpen = false
    const why = await follow(needs, { silentMs: waits.silentMs, signal }, () => {
      wasOpen = true
      failed = 0
      lastWarning = ''
      info(`Connected to the hub ${client.address()}`)
    }).then(
      () => 'the hub ended the stream',
      (error: unknown) => reasonOf(error)
    )
    if (signal.aborted) return
    const warning = `${wasOpen ? 'The connection to the hub was lost' : 'Cannot connect to the hub'}: ${why}`
    if (warning !== lastWarning) warn(warning)
    lastWarning = warning
    client.moveOn()
    const ms = wasOpen
      ? random() * waits.jitterMs
      : (0.5 + random() / 2) * Math.min(waits.longestMs, waits.firstMs * 2 ** Math.min(failed++, 20))
    await sleep(ms, undefined, { signal }).catch(() => {})
  }
}

async function follow(
  { client, keyring, instance, take, onOpen, onEnd }: ConnectionNeeds,
  { silentMs, signal }: { silentMs: number; signal: AbortSignal },
  opened: () => void
): Promise<void> {
  const { answer, asked } = await client.open({
    method: 'GET',
    path: `/api/agent/desired?instance=${instance}`,
    signal
  })
  answer.setTimeout(silentMs, () => answer.destroy(new Error(`it was silent for ${silentMs / 1000} s`)))
  let isOpen = false
  const read = createStreamReader({ asked, keyring, nowMs: () => performance.now() })
  const reader = createLineReader(
    text => {
      const line = read(text)
      if (!isOpen) {
        isOpen = true
        opened()
        onOpen()
      }
      if (line !== null) take(line)
    },
    { maxLength: maxLineLength }
  )
  const decoder = new TextDecoder()
  try {
    for await (const chunk of answer as AsyncIterable<Buffer>) reader.push(decoder.decode(chunk, { stream: true }))
  } catch (error) {
    throw signal.aborted || error instanceof Refusal
      ? error
      : new Refusal('unavailable', 'stream_broken', reasonOf(error))
  } finally {
    answer.destroy()
    if (isOpen) onEnd()
  }
}

/*
 * Makes a machine a node of a fleet, with a one-time token: `svcnode_<secret>_<public key of the hub, base64url>`. The
 * answer must name the key that the token names.
 */

/** What a machine says about itself. */
export interface EnrolOptions {
  token: string
  /** The addresses of the hubs. */
  hubs: string[]
  name: string
  labels: Record<string, string>
  version: string
  key: AgentKey
  createCaller(address: string): Caller
  signal: AbortSignal
}

const limitMs = 30_000
const maxEnrolledBytes = 64 * 1024
const tokenPattern = /^svcnode_[\w-]+_([\w-]{43})$/

/** Returns the key of the hub that a token names, in base64. Refuses (`invalid`) a text that is no token. */
export function hubKeyOf(token: string): string {
  const key = tokenPattern.exec(token)?.[1]
  if (key !== undefined) return Buffer.from(key, 'base64url').toString('base64')
  throw invalid('enroll', 'The enrollment token is not complete: it must be like "svcnode_…_…". Copy it again')
}

/** Enrolls at the first hub that answers. Refuses what the hub refuses, and (`unavailable`) hub_unreachable. */
export async function enrol({ hubs, ...options }: EnrolOptions): Promise<Identity> {
  const hubKey = hubKeyOf(options.token)
  let failure: unknown
  for (const address of hubs) {
    try {
      const answer = await ask(address, options)
      if (answer.hubKey !== hubKey) throw otherHub(address)
      return { hubs, nodeId: answer.nodeId, name: answer.name, hubKey }
    } catch (error) {
      if (error instanceof Refusal && error.kind !== 'unavailable') throw error
      options.signal.throwIfAborted()
      failure = error
    }
  }
  throw failure
}

async function ask(
  address: string,
  { token, name, labels, version, key, createCaller, signal }: Omit<EnrolOptions, 'hubs'>
): Promise<EnrollAnswer> {
  const caller = createCaller(address)
  const request: EnrollRequest = { token, publicKey: key.publicKey, name, labels, version }
  const headers = { 'content-type': 'application/json' }
  const body = Buffer.from(JSON.stringify(request))
  try {
    const answer = await caller
      .send({ method: 'POST', path: '/api/agent/enroll', headers, body, limitMs, signal })
      .catch((error: unknown) => {
        signal.throwIfAborted()
        throw unreachable(address, error)
      })
    if (answer.statusCode !== 200) throw await refusalOf(answer)
    let text = ''
    for await (const chunk of answer.setEncoding('utf8') as AsyncIterable<string>) {
      text += chunk
      if (text.length > maxEnrolledBytes) throw notHub(address)
    }
    return readAnswer(text) ?? reject(notHub(address))
  } finally {
    caller.close()
  }
}

function readAnswer(text: string): EnrollAnswer | null {
  try {
    const value = JSON.parse(text) as EnrollAnswer
    const isWhole = [value.nodeId, value.name, value.hubKey].every(field => typeof field === 'string' && field !== '')
    return isWhole ? value : null
  } catch {
    return null
  }
}

function reject(refusal: Refusal): never {
  throw refusal
}

function otherHub(address: string): Refusal {
  const sentence = `${address} is not the hub that the enrollment token is for: it has another key. Check the address`
  return new Refusal('forbidden', 'wrong_hub', sentence)
}
