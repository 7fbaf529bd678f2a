/*
 * What the hubs of a cluster believe each other. A hub signs each request to another hub with its own key:
 *
 *   Svc-Forwarded: 2.<claim in base64url>.<Ed25519 signature in base64url>
 *
 * The claim is JSON: the hub that sends, the start of the hub that receives, the time, a number used once, whether a body
 * follows, and the client whose request is passed on. The signature covers the claim, the method, the target below the base path,
 * and the credentials. A body ends with a signature of 64 bytes over the claim and the SHA-256 of what came before, because an
 * upload is not known when its head is sent; its reader sees the end only if that signature is right.
 *
 * Nothing else is believed. The roles of a client follow from its own credentials, which the receiver checks itself. That a
 * client is the local operator never crosses machines.
 *
 * Hubs of svc before this format signed with a key that all hubs of a cluster had. Such a header is written for a hub that has
 * published no key, and is refused with a sentence.
 */
import {
  createHash,
  createHmac,
  hkdfSync,
  randomBytes,
  sign,
  timingSafeEqual,
  verify,
  type KeyObject
} from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { Transform } from 'node:stream'
import type { Clock } from '../base/clock.js'
import { Refusal, reasonOf } from '../base/errors.js'
import { parsePublicKey } from '../base/digests.js'
import { hasBody } from '../http/core/exchange.js'
import { normaliseAddress, isLoopback } from '../http/core/headers.js'
import type { BodySeal, ClientAddress } from '../http/core/route.js'
import * as http from 'node:http'
import * as https from 'node:https'
import { isIP } from 'node:net'
import { readAtMost } from '../base/async.js'

export const forwardedHeader = 'svc-forwarded'

/** Another hub, as the list in etcd names it. */
export interface Peer {
  name: string
  url: string
  /** Its public key; null: it runs an older svc. */
  publicKey: string | null
  /** Names its present start; null as before. */
  boot: string | null
}

/** The parts of a request that the signature covers. */
export interface SignedRequest {
  method: string
  /** Path and query below the base path of the server. */
  target: string
  headers: IncomingHttpHeaders
}

/** What a hub says about the client whose request it passes on. */
export type PassedClient = Pick<ClientAddress, 'address' | 'witnessed' | 'viaProxy'> & { isSecure: boolean }

/** A client as a hub reports it. */
export type ForwardedClient = ClientAddress & Required<Pick<ClientAddress, 'hub'>>

/** Who signs the requests of this hub. */
export interface HubSigner {
  /** The name of this hub. */
  hub: string
  key: KeyObject
  /** The key of `forwardKeyOf`, for hubs of an older svc. */
  legacyKey: Uint8Array
  clock: Clock
}

/** A request that is ready to be sent. */
export interface SignedHead {
  /** The value of the header. */
  header: string
  /** Number of bytes that follow the body. */
  tailBytes: number
  /** Returns the stream that the body goes through. */
  seal(): Transform
}

/** Longest header that is read, in characters. */
const maxHeaderLength = 4096
const version = '2'
const signatureBytes = 64
const nonceBytes = 16
const noncePattern = /^[\w-]{22}$/
/** How far the clocks of two hubs may differ, and how long a request may travel. */
const windowMs = 60_000
/** Numbers used once that are kept in one of two sets. A hub beyond that is refused. */
const maxNonces = 200_000

/** Returns the key of the header of older hubs, derived from the key of the cluster. */
export function forwardKeyOf(clusterKey: Uint8Array): Buffer {
  return Buffer.from(hkdfSync('sha256', clusterKey, '', 'svc forward 1', 32))
}

/** Signs a request to another hub. `client`: whose request it is; null: this hub's own. */
export function signForHub(
  { hub, key, legacyKey, clock }: HubSigner,
  { to, client }: { to: Peer; client: PassedClient | null },
  request: SignedRequest
): SignedHead {
  if (to.publicKey === null || to.boot === null) return legacyHead(legacyKey, { hub, client }, request)
  const body = hasBody(request.headers)
  const nonce = randomBytes(nonceBytes).toString('base64url')
  const claim = { hub, to: to.boot, at: clock.now(), nonce, body, ...(client !== null && { client: passedOf(client) }) }
  const text = Buffer.from(JSON.stringify(claim)).toString('base64url')
  const signature = sign(null, headOf(text, request), key).toString('base64url')
  return {
    header: `${version}.${text}.${signature}`,
    tailBytes: body ? signatureBytes : 0,
    seal() {
      const hash = createHash('sha256')
      return new Transform({
        transform(chunk: Buffer, _, done) {
          hash.update(chunk)
          done(null, chunk)
        },
        flush: done => done(null, sign(null, bodyOf(text, hash.digest('hex')), key))
      })
    }
  }
}

/** Returns what the signature of a head covers. */
function headOf(claim: string, { method, target, headers }: SignedRequest): Buffer {
  const { authorization = '', cookie = '' } = headers
  return Buffer.from(JSON.stringify(['svc hub request 2', claim, method, target, authorization, cookie]))
}

/** Returns what the signature after a body covers. */
function bodyOf(claim: string, sha256: string): Buffer {
  return Buffer.from(JSON.stringify(['svc hub body 2', claim, sha256]))
}

function passedOf({ address, witnessed, viaProxy, isSecure }: PassedClient): PassedClient {
  return { address, witnessed, viaProxy, isSecure }
}

export interface HubReaderNeeds {
  /** The start of this hub, as it was published. */
  boot: string
  peers: {
    /** Returns a hub of the cluster; null: it is none, or was removed. */
    find(name: string): Peer | null
    /** Whether etcd has confirmed the list a moment ago. */
    isFresh(): boolean
  }
  legacyKey: Uint8Array
  clock: Clock
}

/** Reads which hub sent a request: null if none did, and a refusal if the hub is not believed. */
export type HubReader = (request: SignedRequest) => ForwardedClient | Refusal | null

/** Creates the reader of a hub. It remembers the numbers that were used. */
export function createHubReader({ boot, peers, legacyKey, clock }: HubReaderNeeds): HubReader {
  const used = createUsedNumbers(clock)
  return request => {
    const header = request.headers[forwardedHeader]
    if (typeof header !== 'string' || header.length > maxHeaderLength) return null
    const [first, text = '', signature = '', more] = header.split('.')
    if (first !== version || more !== undefined) return isLegacy(legacyKey, request) ? outdated() : null
    const claim = claimOf(text)
    if (claim === null) return unknown('its claim is malformed')
    if (!peers.isFresh()) return later('this hub cannot ask etcd at the moment which hubs there are')
    const key = parsePublicKey(peers.find(claim.hub)?.publicKey ?? '')
    const given = Buffer.from(signature, 'base64url')
    if (key === null || !verify(null, headOf(text, request), key, given)) {
      return unknown('no hub of this cluster has signed it. A hub that was removed must join again')
    }
    if (claim.to !== boot) return later('it is meant for an earlier start of this hub, or for another hub')
    const lateMs = clock.now() - claim.at
    if (Math.abs(lateMs) > windowMs) return later(apart(claim.hub, lateMs))
    if (claim.body !== hasBody(request.headers)) return unknown('its body was added or removed')
    const outcome = used.take(claim.nonce)
    if (outcome === 'full') return later('too many requests of hubs')
    if (outcome === 'used') return unknown('it was sent before')
    return clientOf(claim, sealOf(claim, text, key))
  }
}

interface Claim {
  hub: string
  to: string
  at: number
  nonce: string
  body: boolean
  client: PassedClient | null
}

/** Returns the claim in a header, with nothing but what a hub may claim; null if it is malformed. */
function claimOf(text: string): Claim | null {
  try {
    const given = JSON.parse(Buffer.from(text, 'base64url').toString()) as Record<string, unknown>
    const { hub, to, at, nonce, body } = given
    const client = given['client'] === undefined ? null : passedClientOf(given['client'] as Record<string, unknown>)
    const isRight =
      typeof hub === 'string' &&
      typeof to === 'string' &&
      Number.isSafeInteger(at) &&
      typeof nonce === 'string' &&
      noncePattern.test(nonce) &&
      typeof body === 'boolean'
    return isRight ? { hub, to, at: at as number, nonce, body, client } : null
  } catch {
    return null
  }
}

/** Throws if it is not a client: the caller refuses the whole claim. */
function passedClientOf({ address, witnessed, viaProxy, isSecure }: Record<string, unknown>): PassedClient {
  const isAddress = (text: unknown): text is string => typeof text === 'string' && normaliseAddress(text) === text
  if (!isAddress(address) || !isAddress(witnessed)) throw new Error('An address is malformed')
  return { address, witnessed, viaProxy: viaProxy === true, isSecure: isSecure === true }
}

function clientOf({ hub: name, client }: Claim, seal: BodySeal | undefined): ForwardedClient {
  const { address, witnessed, viaProxy, isSecure } = client ?? {
    address: 'hub',
    witnessed: 'hub',
    viaProxy: false,
    isSecure: false
  }
  const hub = { name, isOwn: client === null, isSecure, ...(seal && { seal }) }
  return Object.freeze({ address, witnessed, viaProxy, local: false, hub })
}

/** Returns what checks a body while it is read; undefined if there is none. */
function sealOf({ body }: Claim, claim: string, key: KeyObject): BodySeal | undefined {
  if (!body) return undefined
  const hash = createHash('sha256')
  let held: Buffer = Buffer.alloc(0)
  return {
    tailBytes: signatureBytes,
    take(chunk) {
      const all = held.length === 0 ? chunk : Buffer.concat([held, chunk])
      const end = Math.max(0, all.length - signatureBytes)
      held = all.subarray(end)
      const content = all.subarray(0, end)
      hash.update(content)
      return content
    },
    isWhole: () => held.length === signatureBytes && verify(null, bodyOf(claim, hash.digest('hex')), key, held)
  }
}

/** Remembers numbers for as long as a request with one of them could be accepted again. */
function createUsedNumbers(clock: Clock): { take(nonce: string): 'new' | 'used' | 'full' } {
  let [recent, earlier] = [new Set<string>(), new Set<string>()]
  let sinceMs = clock.now()
  return {
    take(nonce) {
      if (clock.now() - sinceMs > 2 * windowMs) {
        ;[recent, earlier] = [new Set(), recent]
        sinceMs = clock.now()
      }
      if (recent.has(nonce) || earlier.has(nonce)) return 'used'
      if (recent.size >= maxNonces) return 'full'
      recent.add(nonce)
      return 'new'
    }
  }
}

function apart(hub: string, lateMs: number): string {
  const seconds = Math.round(Math.abs(lateMs) / 1000)
  return `the clocks of this hub and of "${hub}" differ by ${seconds} s, or it took as long. Hubs accept ${windowMs / 1000} s: set the clocks`
}

function unknown(why: string): Refusal {
  return new Refusal('forbidden', 'hub_refused', `Cannot accept this as a request of a hub: ${why}`)
}

function later(why: string): Refusal {
  const sentence = `Cannot accept this as a request of a hub now: ${why}`
  return new Refusal('unavailable', 'hub_out_of_step', sentence, { retryAfterSeconds: 2 })
}

function outdated(): Refusal {
  const sentence =
    'Cannot accept this as a request of a hub: the hub that sent it runs an older svc, which has no key of its own. Install the newer svc there'
  return new Refusal('forbidden', 'hub_refused', sentence)
}

/** Signs as hubs before this format did: with a key that all of them have. */
function legacyHead(
  key: Uint8Array,
  { hub: name, client }: { hub: string; client: PassedClient | null },
  request: SignedRequest
): SignedHead {
  const own = { address: 'hub', witnessed: 'hub', viaProxy: false, isSecure: false }
  const { isSecure, ...addresses } = client ?? own
  const told = { ...addresses, local: false, hub: { name, isOwn: client === null, isSecure } }
  const claim = Buffer.from(JSON.stringify(told)).toString('base64url')
  const header = `${claim}.${legacySignature(key, claim, request).toString('base64url')}`
  return { header, tailBytes: 0, seal: () => new Transform({ transform: (chunk, _, done) => done(null, chunk) }) }
}

function isLegacy(key: Uint8Array, request: SignedRequest): boolean {
  const [claim = '', signature = ''] = String(request.headers[forwardedHeader]).split('.')
  const given = Buffer.from(signature, 'base64url')
  const right = legacySignature(key, claim, request)
  return given.length === right.length && timingSafeEqual(given, right)
}

function legacySignature(key: Uint8Array, claim: string, { method, target, headers }: SignedRequest): Buffer {
  const credentials = [headers.authorization ?? '', headers.cookie ?? '']
  return createHmac('sha256', key)
    .update(JSON.stringify([claim, method, target, ...credentials]))
    .digest()
}

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
export type HubClient = ReturnType<typeof createHubClient>

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

export function createHubClient(options: HubClientOptions) {
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
    /**
     * Resolves with the answer if its status is 200 or 206. Refuses: 503 `hub_unreachable`, and what the other hub refuses,
     * with its code.
     */
    ask,
    /** Sends a request and reads its answer as JSON. */
    json: async (to: Peer, request: HubRequest): Promise<unknown> => JSON.parse(await textOf(await ask(to, request)))
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
