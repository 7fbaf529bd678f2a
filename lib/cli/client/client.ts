/*
 * The HTTP client of the command line: it sends one request and reads its answer, through a proxy if the environment
 * names one. No other file of the command line uses the network. The map of routes (api/map) says what a route takes and
 * answers.
 *
 * A request has four phases: connecting, sending, waiting for the answer, reading it. Each phase but the last has its
 * own timeout for inactivity. A body may stream for half an hour, so reading relies on TCP keep-alive, and the reader
 * can set its own timeout.
 *
 * A large body is announced with `Expect: 100-continue` (RFC 9110 §10.1.1), so that a server can refuse it (401, 413)
 * before a byte is sent. After a second without an answer the body is sent anyway, because some proxies do not support
 * this. If a refusal arrives while the body is being sent, sending stops and the refusal is read.
 */
import type * as http from 'node:http'
import { reasonOf, Refusal } from '../../base/errors.js'
import { routePath } from '../../base/shared/api.js'
import { pause } from '../../base/clock.js'
import { type BearerToken, maySend, parseServerUrl } from '../../base/config/client-config.js'
import { dial, proxyFor, timedOut } from '../../http/outgoing/caller.js'
import { tokenTextFault } from '../../base/shared/token-text.js'
import { usage } from '../command.js'
import type { Host } from '../terminal/output.js'
import { type Answer, isElecting, missingRoute, notSvc, parseJson, readText, refusalOf } from './answer.js'
import type { Answered, Arguments, Given, Route } from '../../api/map/routes.js'

const connectLimitMs = 15_000
const sendLimitMs = 60_000
const defaultAnswerLimitMs = 120_000
const probeLimitMs = 10_000
const continueWaitMs = 1000
const keepAliveMs = 30_000
/** A body is not sent on a connection that was silent for longer: it may have been closed without a word. */
const reuseMs = 1000
const jsonType = 'application/json'
const anyType = '*/*'
const expectFromBytes = 64 * 1024
/**
 * Maximum size of an answer that is read as a whole. A list of deployments with 4 KiB of output each is far smaller.
 */
const maxAnswerBytes = 64 * 1024 * 1024

export interface Body {
  contentType: string
  bytes: number
  chunks(): AsyncIterable<Uint8Array>
}

/** One request. */
export interface Call {
  method?: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** Path below the address of the server, with each segment percent-encoded: `/api/projects`. */
  path: string
  /** Parameters of the query. Undefined values are left out. */
  query?: Record<string, string | undefined>
  headers?: Record<string, string>
  /** Type that the answer must have; that of `anyType`: any but a page. Default: JSON. */
  accept?:
    | 'application/x-ndjson'
    | 'application/vnd.in-toto+dsse'
    | 'text/event-stream'
    | 'text/plain'
    | 'application/zip'
    | 'application/octet-stream'
    | typeof anyType
  /** Whether the answer may be JSON instead. */
  orJson?: boolean
  /** A status other than success whose answer is returned instead of thrown. */
  alsoStatus?: number
  json?: unknown
  body?: Body
  /** Maximum time to wait for the answer after the request was sent, in milliseconds. */
  answerLimitMs?: number
  signal?: AbortSignal | undefined
}

/** What a request to a route has besides what the route takes. */
type RouteOptions = Omit<Call, 'method' | 'path' | 'query' | 'json' | 'body'>

export function requestOf<R extends Route>(route: R, given: Given<R> & RouteOptions): Call {
  const { query, body, ...rest } = given as RouteOptions & { query?: Record<string, unknown>; body?: unknown }
  const texts = Object.entries(query ?? {}).map(([name, value]) => [name, value?.toString()])
  return {
    ...rest,
    method: route.split(' ')[0] as NonNullable<Call['method']>,
    path: routePath(route, given as Record<string, unknown>),
    query: Object.fromEntries(texts) as Record<string, string | undefined>,
    ...(body !== undefined && { json: body })
  }
}

/** Sends requests to one server. */
export type Client = ReturnType<typeof createClient>

export interface ClientOptions {
  /** Address with `http` or `https`. It may have a path: the prefix of the server. */
  serverUrl: string
  /** Bearer token, sent only to the origin that it is bound to. Null sends no token. */
  token: BearerToken | null
  /** Unix socket to connect to, instead of the address and any proxy. */
  socketPath?: string
  env: Host['env']
  /** How long a request is repeated while a cluster has no leader. */
  leaderWaitMs?: number
}

/**
 * How long a command waits for a cluster that has no leader, and the longest pause. After etcd was away, the lease of the
 * leader before runs on (4 s), hubs learn of it by their next round (2 s), and a busy machine needs time for the rest.
 */
const leaderWaitMs = 30_000
const maxRepeatMs = 5000

/**
 * Creates a client. Refuses an invalid address (`usage`), a text that is only a part of a named token (`invalid`
 * `broken_token`), and a token that is bound to another origin (403
 * `token_elsewhere`). The client follows no redirects, so the token never reaches another origin.
 */
export function createClient({ serverUrl, socketPath, token, env, ...limits }: ClientOptions) {
  const address = checkAddress(serverUrl)
  const base = new URL(address)
  const fault = token === null ? null : tokenTextFault(token.value)
  if (token !== null && fault !== null)
    throw new Refusal('invalid', 'broken_token', `The token from ${token.from} is not complete: ${fault}`)
  if (token !== null && !maySend(token, address)) {
    throw new Refusal(
      'forbidden',
      'token_elsewhere',
      `The token from ${token.from} was not sent to ${base.origin}: it belongs to ${token.origin}`
    )
  }
  const proxy = socketPath === undefined ? proxyFor(base, env) : null
  /** When the last answer ended. */
  let answeredAtMs = -Infinity
  const attempt: Attempt = { address: socketPath ?? address, host: base.hostname, proxy: proxy?.host ?? null }

  /** Repeats a request while a cluster elects a leader. It was not carried out: a lost answer has another code. */
  async function open(call: Call): Promise<Answer> {
    for (let untilMs: number | null = null; ; ) {
      try {
        return await openOnce(call)
      } catch (error) {
        if (!isElecting(error) || call.body !== undefined) throw error
        const nowMs = performance.now()
        untilMs ??= nowMs + (limits.leaderWaitMs ?? leaderWaitMs)
        if (nowMs >= untilMs) throw error
        const waitMs = Math.min((error.retryAfterSeconds ?? 1) * 1000, maxRepeatMs, untilMs - nowMs)
        await pause(waitMs, call.signal)
      }
    }
  }

  async function openOnce(call: Call): Promise<Answer> {
    const answer = await exchange(call).catch((error: unknown) => {
      throw explainNetworkError(error, attempt)
    })
    const status = answer.statusCode as number
    if ((status < 200 || status >= 300) && status !== call.alsoStatus) {
      const refusal = await refusalOf(answer, { address, tokenFrom: token?.from ?? null })
      const route = status === 404 ? missingRoute(refusal.message) : null
      if (route === null) throw refusal
      if (await hasHealth()) {
        const sentence = `The server does not know ${route}: it may be older than this svc. Update the server`
        throw new Refusal('not_found', refusal.code, sentence, { cause: refusal })
      }
      const cure = 'Correct the address: its path must be the prefix of the server (svc serve --base), if it has one'
      throw new Refusal('not_found', 'wrong_prefix', `There is no svc at ${address}. ${cure}`, { cause: refusal })
    }
    if (!isOfType(answer.headers['content-type'] ?? '', call)) throw notSvc(answer, address)
    return answer
  }

  /** Whether svc answers at this address at all. Without an answer, nothing is known. */
  async function hasHealth(): Promise<boolean> {
    const answer = await exchange({ path: '/api/health', answerLimitMs: probeLimitMs }).catch(() => null)
    answer?.destroy()
    return answer?.statusCode !== 404
  }

  async function exchange(call: Call): Promise<Answer> {
    call.signal?.throwIfAborted()
    const url = new URL(address + call.path)
    for (const [name, value] of Object.entries(call.query ?? {})) {
      if (value !== undefined) url.searchParams.set(name, value)
    }
    const body = call.body ?? (call.json === undefined ? undefined : jsonBody(call.json))
    const headers: Record<string, string | number> = { accept: call.accept ?? jsonType, ...call.headers }
    if (token !== null) headers['authorization'] = `Bearer ${token.value}`
    if (body !== undefined) {
      headers['content-type'] = body.contentType
      headers['content-length'] = body.bytes
      if (body.bytes >= expectFromBytes) headers['expect'] = '100-continue'
    } else if (call.method !== undefined && call.method !== 'GET') headers['content-length'] = 0
    const start = { method: call.method ?? 'GET', headers, ...(socketPath === undefined ? {} : { socketPath }) }
    const isStale = call.body !== undefined && performance.now() - answeredAtMs > reuseMs
    const way = { proxy, signal: call.signal, limitMs: connectLimitMs, ...(isStale && { agent: false as const }) }
    const answer = await converse(await dial(url, start, way), body, call)
    answer.once('close', () => (answeredAtMs = performance.now()))
    return answer
  }

  async function probe(): Promise<number> {
    const answer = await exchange({ path: '/', answerLimitMs: probeLimitMs }).catch((error: unknown) => {
      throw explainNetworkError(error, attempt)
    })
    answer.destroy()
    return answer.statusCode as number
  }

  /** Returns the JSON of a successful request. */
  async function json<T>(call: Call): Promise<T> {
    // Through the socket of this machine, each byte costs less than its compression.
    const coding: Record<string, string> = socketPath === undefined ? { 'accept-encoding': 'gzip' } : {}
    const answer = await open({ ...call, headers: { ...coding, ...call.headers } })
    const text = await readText(answer, maxAnswerBytes)
    const value = parseJson(text)
    if (!isOfSvc(value, call)) throw notSvc(answer, address)
    return value as T
  }

  return {
    /** Address of the server, or the path of its socket; safe to print. */
    address: socketPath ?? address,
    /** Returns the answer of a successful request, its body unread. Throws any other answer as a Refusal. */
    open,
    /** Sends a GET to the address itself and returns the status, whatever it is. Refuses `unreachable`. */
    probe,

    json,
    /** Asks a route, and returns the answer, its body unread. Rejects as `open` does. */
    ask: <R extends Route>(route: R, given: Given<R> & RouteOptions): Promise<Answer> => open(requestOf(route, given)),
    /** Asks a route, and returns the JSON of its answer. Rejects as `json` does. */
    call: <R extends Route>(route: R, ...[given]: Arguments<R, RouteOptions>): Promise<Answered<R>> =>
      json(requestOf(route, (given ?? {}) as never))
  }
}

/** Whether an answer has a type that was asked for. A page is that of another program. */
function isOfType(type: string, { accept, orJson }: Call): boolean {
  if (accept === anyType) return !type.startsWith('text/html')
  return type.startsWith(accept ?? jsonType) || (orJson === true && type.startsWith(jsonType))
}

const lists = /^\/api\/(projects|logs|categories|tags)$/

/** Whether JSON may be that of svc: no scalar, and a list where svc has one. */
function isOfSvc(value: unknown, { method = 'GET', path }: Call): boolean {
  if (method === 'GET' && lists.test(path)) return Array.isArray(value)
  return typeof value === 'object' && value !== null
}

function checkAddress(serverUrl: string): string {
  const address = parseServerUrl(serverUrl)
  if (address !== null) return address
  throw usage('serverUrl', 'The server\'s address is invalid: it must be like "https://deploy.example.com"')
}

function jsonBody(value: unknown): Body {
  const bytes = Buffer.from(JSON.stringify(value))
  return {
    contentType: jsonType,
    bytes: bytes.length,
    async *chunks() {
      yield bytes
    }
  }
}

/**
 * Sends the request and returns the head of the answer. An abort of `signal` ends it and throws the reason unchanged.
 */
async function converse(
  request: http.ClientRequest,
  body: Body | undefined,
  { signal, answerLimitMs = defaultAnswerLimitMs }: Call
): Promise<Answer> {
  const refused = new AbortController()
  const silence = createSilence(() => request.destroy(timedOut()))
  let answering: Answer | undefined
  const abort = () => void (answering ?? request).destroy(signal?.reason as Error)
  signal?.addEventListener('abort', abort, { once: true })
  request.once('close', () => signal?.removeEventListener('abort', abort))
  // After the answer has begun, its reader gets the error.
  request.on('error', () => {})
  request.once('socket', socket => {
    silence.allow(connectLimitMs)
    socket.setKeepAlive(true, keepAliveMs)
    const connected = () => silence.allow(body === undefined ? answerLimitMs : sendLimitMs)
    if (socket.connecting) socket.once('connect', connected)
    else connected()
  })
  const answered = new Promise<Answer>((resolve, reject) => {
    request.once('error', reject)
    request.once('response', answer => {
      if ((answer.statusCode as number) >= 400) refused.abort()
      answering = answer
      resolve(answer)
    })
  })
  try {
    // An answer may arrive, and be read, while the rest of the body is still being sent.
    const sent =
      body === undefined ? void request.end() : send(request, { body, answerLimitMs, refused: refused.signal, silence })
    const [answer] = await Promise.all([answered, Promise.race([sent, answered])])
    return answer
  } catch (error) {
    request.destroy()
    throw error
  } finally {
    silence.end()
  }
}

interface Sending {
  body: Body
  answerLimitMs: number
  /** Aborted when the server refuses the request. */
  refused: AbortSignal
  silence: Silence
}

async function send(request: http.ClientRequest, { body, answerLimitMs, refused, silence }: Sending): Promise<void> {
  if (request.getHeader('expect') !== undefined) {
    request.flushHeaders()
    await goAhead(request)
    if (refused.aborted || request.destroyed) return
  }
  for await (const chunk of body.chunks()) {
    if (refused.aborted || request.destroyed) return
    silence.allow(sendLimitMs)
    // Waiting for `drain` lets an answer that has arrived be read before the next write can fail.
    if (!request.write(chunk)) await drained(request, refused)
  }
  if (refused.aborted || request.destroyed) return
  silence.allow(answerLimitMs)
  request.end()
}

/** Waits until the server allows the body, answers, or does neither for a second. */
async function goAhead(request: http.ClientRequest): Promise<void> {
  await new Promise<void>(resolve => {
    const timer = setTimeout(resolve, continueWaitMs)
    for (const event of ['continue', 'response', 'close']) {
      request.once(event, () => {
        clearTimeout(timer)
        resolve()
      })
    }
  })
}

/** Waits until more can be written, or until the request is refused or closed. */
async function drained(request: http.ClientRequest, refused: AbortSignal): Promise<void> {
  if (refused.aborted || request.destroyed) return
  await new Promise<void>(resolve => {
    const done = () => {
      request.off('drain', done).off('close', done)
      refused.removeEventListener('abort', done)
      resolve()
    }
    request.on('drain', done).on('close', done)
    refused.addEventListener('abort', done)
  })
}

/** A timeout for inactivity. */
type Silence = ReturnType<typeof createSilence>

function createSilence(onTooLong: () => void) {
  let timer: NodeJS.Timeout | undefined
  let hasEnded = false
  return {
    /** Restarts the timeout with `ms` milliseconds. */
    allow(ms: number): void {
      clearTimeout(timer)
      if (!hasEnded) timer = setTimeout(onTooLong, ms)
    },

    /** Stops the timeout for good. */
    end(): void {
      hasEnded = true
      clearTimeout(timer)
    }
  }
}

/** A request that failed, for the error message. */
export interface Attempt {
  /** Address of the server, without credentials. */
  address: string
  host: string
  /** Host and port of the proxy; null if none was used. */
  proxy: string | null
}

/** Returns the explanation of an error. `reason` describes its code. */
type Sentence = (attempt: Attempt, reason: string) => string

const refused: Sentence = ({ address, proxy }, reason) =>
  proxy === null
    ? `${reason} by ${address}. Start the server with "svc serve", or check the address`
    : `${reason} by the proxy ${proxy}. Check the proxy, or use NO_PROXY to bypass it for this host`
/** The name that is looked up, and the machine that is reached first: the proxy, if there is one. */
const reached = ({ host, proxy }: Attempt): string => (proxy === null ? `"${host}"` : `the proxy "${proxy}"`)
const checkNetwork: Sentence = (attempt, reason) => `${reason}: ${reached(attempt)}. Check the network`
const tooLong: Sentence = ({ address }, reason) => `${reason}: ${address} did not answer in time`
const closed: Sentence = ({ address }, reason) =>
  `${reason}: ${address} closed the connection before it answered` +
  (address.startsWith('http:') ? `. If that port expects TLS, use an address with https://` : '')
const unknownIssuer: Sentence = ({ host }) =>
  `the certificate of "${host}" is signed by an unknown authority. Use NODE_EXTRA_CA_CERTS=<file> to trust it`
const noTls: Sentence = ({ host, address }) =>
  `"${host}" does not speak TLS on that port. For plain HTTP, use "${address.replace(/^https:/, 'http:')}"`
const noHttp: Sentence = ({ address }) =>
  `${address} does not speak HTTP. If that port expects TLS, use an address with https://`

const asItIs: Sentence = (_, reason) => reason
/** What OpenSSL and Node call an error of TLS, beside those that have their own sentence. */
const tlsCode = /^(CERT|CRL|ERR_SSL|ERR_TLS|UNABLE_TO)_|^(HOSTNAME_MISMATCH|INVALID_CA|INVALID_PURPOSE)$/

/** Maps the error codes of Node to explanations. */
const sentences: Record<string, Sentence> = {
  ECONNREFUSED: refused,
  ENOTFOUND: (attempt, reason) =>
    `${reason}: ${reached(attempt)}. Check ${attempt.proxy === null ? 'the address' : 'HTTP_PROXY and HTTPS_PROXY'}`,
  EAI_AGAIN: checkNetwork,
  EHOSTUNREACH: checkNetwork,
  ENETUNREACH: checkNetwork,
  ETIMEDOUT: tooLong,
  ECONNRESET: closed,
  EPIPE: closed,
  CERT_HAS_EXPIRED: ({ host }) => `the certificate of "${host}" has expired, or a clock is wrong`,
  DEPTH_ZERO_SELF_SIGNED_CERT: unknownIssuer,
  SELF_SIGNED_CERT_IN_CHAIN: unknownIssuer,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: unknownIssuer,
  UNABLE_TO_GET_ISSUER_CERT: unknownIssuer,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: unknownIssuer,
  ERR_TLS_CERT_ALTNAME_INVALID: ({ host }) => `the certificate is not valid for "${host}"`,
  EPROTO: noTls,
  ERR_SSL_WRONG_VERSION_NUMBER: noTls,
  ERR_SSL_PACKET_LENGTH_TOO_LONG: noTls
}

/**
 * Converts a network error to a refusal (`unavailable`) unreachable that says what to do. Returns other errors as they
 * are.
 */
export function explainNetworkError(error: unknown, attempt: Attempt): unknown {
  if (error instanceof Refusal || !(error instanceof Error)) return error
  const code = String((error as NodeJS.ErrnoException).code ?? '')
  const sentence = sentences[code] ?? (code.startsWith('HPE_') ? noHttp : tlsCode.test(code) ? asItIs : undefined)
  if (sentence === undefined) return error
  return new Refusal('unavailable', 'unreachable', `Cannot reach the server: ${sentence(attempt, reasonOf(error))}`, {
    cause: error
  })
}
