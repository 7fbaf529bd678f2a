/*
 * Requests to etcd's JSON gateway (https://etcd.io/docs/v3.4/dev-guide/api_grpc_gateway/) over node:http and node:https:
 * POST with a JSON body, a JSON answer. Connections are kept. A member that does not answer in time or cannot be reached
 * is left for the next one; any request may therefore be carried out twice, so callers send only what may be repeated.
 *
 * With a user, a token is fetched with the password and sent with each request. etcd forgets tokens (after five minutes,
 * and when a member restarts), so a refused token is replaced once per request, and one that got no answer before the next. Only certificates of the given authority
 * are trusted. The gateway does not take the user from a client certificate, so a password is needed even then.
 */
import * as http from 'node:http'
import * as https from 'node:https'
import { readAtMost } from '../../base/async.js'
import { pause } from '../signals.js'
import { isTlsRefusal } from '../../base/errors.js'

/** Where etcd is, and how to sign in. */
export interface EtcdOptions {
  /** Addresses of its members: `https://e1:2379`. */
  endpoints: string[]
  /** PEM of the authority that signed the certificates of the members. No other is trusted. */
  ca?: string
  /** PEM of a certificate and key of this hub, if etcd requires one. */
  cert?: string
  key?: string
  user?: string
  password?: string
}

export interface AskOptions {
  /** Time limit of the whole request, over all members. */
  limitMs?: number
  signal?: AbortSignal | undefined
  /** Called when an attempt was sent and not answered: a member may have done it, or may still do it. */
  onUnanswered?: (() => void) | undefined
}

export interface StreamOptions {
  take: (line: Record<string, unknown>) => void | Promise<void>
  signal: AbortSignal
}

/** Time limit of one attempt. etcd itself answers within 7 s if it has no majority; a stopped process never does. */
const attemptMs = 2000
const defaultLimitMs = 7000
/** Pause after all members failed, before the first one is asked again. */
const pauseMs = 100
/** Maximum size of an answer. A page of the log is far smaller (cluster/etcd-log.ts). */
const maxAnswerBytes = 64 * 1024 * 1024
const connectMs = 1000

/** The open connections to the members of etcd. None is opened before the first request. */
export class EtcdConnection {
  #options: EtcdOptions
  #agents: ReturnType<typeof agentsOf>
  readonly #members: URL[]
  #current = 0
  #token: string | null = null
  #authenticating: Promise<void> | null = null

  constructor(options: EtcdOptions) {
    this.#options = options
    this.#agents = agentsOf(options)
    this.#members = options.endpoints.map(endpoint => new URL(endpoint))
  }

  /** Sends a request to the current member, and to the next ones if that fails. Throws `EtcdError`, `Unreachable`. */
  ask(path: string, body: object, given: AskOptions = {}): Promise<Record<string, unknown>> {
    const text = JSON.stringify(body)
    return this.#overMembers(given, (member, signal) =>
      this.#withToken(member, signal, () => this.#attempt(member, { path, text, signal }))
    )
  }

  /**
   * Sends a request whose answer is a sequence of JSON lines, and hands each one over. Resolves when etcd ends it. `take`
   * may return a promise: the next line is read after it.
   */
  async stream(path: string, body: object, { take, signal }: StreamOptions): Promise<void> {
    const text = JSON.stringify(body)
    // The time limit of an attempt covers the head of the answer only.
    const { head, ending } = await this.#overMembers({ signal }, (member, limited) =>
      this.#withToken(member, limited, () => this.#begin(member, { path, text, signal: limited }, signal))
    )
    try {
      for await (const line of linesOf(head)) await take(JSON.parse(line) as Record<string, unknown>)
    } catch (error) {
      signal.throwIfAborted()
      throw error
    } finally {
      ending.end()
    }
  }

  /** Moves to the member that leads etcd, which saves the way from a member to the leader with each append. */
  async preferLeader(signal?: AbortSignal): Promise<void> {
    const isLeader = async (member: URL): Promise<boolean> => {
      const limit = createLimit(attemptMs, signal)
      const sent = { path: '/v3/maintenance/status', text: '{}', signal: limit.signal }
      const status = await this.#withToken(member, limit.signal, () => this.#attempt(member, sent)).finally(limit.end)
      const { member_id: own } = status['header'] as { member_id?: string }
      return own !== undefined && own === status['leader']
    }
    const found = await Promise.all(this.#members.map(member => isLeader(member).catch(() => false)))
    const at = found.indexOf(true)
    if (at !== -1) this.#current = at
  }

  /** Uses other certificates and another password from the next request on. */
  renew(next: EtcdOptions): void {
    if (next.user !== this.#options.user || next.password !== this.#options.password) this.#token = null
    this.#options = next
    // A watch goes on with its connection. Those that are not in use go.
    for (const agent of Object.values(this.#agents))
      for (const socket of Object.values(agent.freeSockets).flatMap(list => list ?? [])) socket.destroy()
    this.#agents = agentsOf(next)
  }

  close(): void {
    for (const agent of Object.values(this.#agents)) agent.destroy()
  }

  /** Sends one request to one member; resolves with the head of its answer. */
  #send(member: URL, { path, text, signal }: Sent): Promise<http.IncomingMessage> {
    const headers = {
      'Content-Type': 'application/json',
      'Content-Length': Buffer.byteLength(text),
      ...(this.#token !== null && { Authorization: this.#token })
    }
    const isTls = member.protocol === 'https:'
    return new Promise((resolve, reject) => {
      const given = {
        method: 'POST',
        host: member.hostname.replace(/^\[|\]$/g, ''),
        port: member.port === '' ? (isTls ? 443 : 80) : Number(member.port),
        path,
        headers,
        signal,
        agent: this.#agents[isTls ? 'https:' : 'http:']
      }
      const request = isTls ? https.request(given, resolve) : http.request(given, resolve)
      request.on('error', error => reject(error))
      request.on('socket', socket => {
        if (!socket.connecting) return
        const late = setTimeout(() => request.destroy(new NoConnection()), connectMs)
        socket.once('connect', () => clearTimeout(late))
        socket.once('close', () => clearTimeout(late))
      })
      // The request has an end: with an open body the gateway of etcd 3.4 sends nothing, not even of a watch.
      request.end(text)
    })
  }

  async #attempt(member: URL, sent: Sent): Promise<Record<string, unknown>> {
    const response = await this.#send(member, sent)
    const text = await textOf(response)
    if (response.statusCode !== 200) throw errorOf(response.statusCode ?? 0, text)
    return JSON.parse(text) as Record<string, unknown>
  }

  /** Sends a request whose answer is read later, until `whole` aborts. The signal in `sent` is for the head alone. */
  async #begin(member: URL, sent: Sent, whole: AbortSignal): Promise<{ head: http.IncomingMessage; ending: Limit }> {
    const ending = createLimit(null, whole)
    sent.signal.addEventListener('abort', ending.abort)
    try {
      const head = await this.#send(member, { ...sent, signal: ending.signal })
      if (head.statusCode !== 200) throw errorOf(head.statusCode ?? 0, await textOf(head))
      return { head, ending }
    } catch (error) {
      ending.end()
      throw error
    } finally {
      sent.signal.removeEventListener('abort', ending.abort)
    }
  }

  async #authenticate(member: URL, signal: AbortSignal): Promise<void> {
    this.#token = null
    const { user, password } = this.#options
    const text = JSON.stringify({ name: user, password })
    const answer = await this.#attempt(member, { path: '/v3/auth/authenticate', text, signal })
    this.#token = String(answer['token'])
  }

  /** Runs `work` with a valid token: fetches one if there is none, and again if etcd refuses it. */
  async #withToken<T>(member: URL, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    if (this.#options.user === undefined) return work()
    const renew = () =>
      (this.#authenticating ??= this.#authenticate(member, signal).finally(() => (this.#authenticating = null)))
    if (this.#token === null) await renew()
    const used = this.#token
    try {
      return await work()
    } catch (error) {
      // After etcd went back to a snapshot, it never answers a token that was made later than that.
      if (signal.aborted && this.#token === used) this.#token = null
      if (!(error instanceof EtcdError && error.isTokenRefused)) throw error
      if (this.#token === used) await renew()
      return work()
    }
  }

  /** Calls `work` with one member after the other until one answers, or the time is up. */
  async #overMembers<T>(
    { limitMs = defaultLimitMs, signal, onUnanswered }: AskOptions,
    work: (member: URL, signal: AbortSignal) => Promise<T>
  ): Promise<T> {
    const deadlineMs = performance.now() + limitMs
    let last: unknown = null
    for (let failed = 0; ; ) {
      signal?.throwIfAborted()
      const leftMs = deadlineMs - performance.now()
      if (leftMs <= 0) throw new Unreachable(this.#members.length, last)
      const at = this.#current
      const member = this.#members[at] as URL
      const limit = createLimit(Math.min(leftMs, attemptMs), signal)
      try {
        return await work(member, limit.signal)
      } catch (error) {
        signal?.throwIfAborted()
        if (error instanceof EtcdError && !error.isPassing) throw error
        if (!wasUnsent(error)) onUnanswered?.()
        last = limit.signal.aborted ? new Error(`${member.host} did not answer in time`) : error
        if (this.#current === at) this.#current = (at + 1) % this.#members.length
        if (++failed % this.#members.length === 0) await pause(pauseMs, signal)
      } finally {
        limit.end()
      }
    }
  }
}

function agentsOf({ ca, cert, key }: EtcdOptions): Record<'http:' | 'https:', http.Agent> {
  const tls = {
    ...(ca !== undefined && { ca }),
    ...(cert !== undefined && { cert }),
    ...(key !== undefined && { key })
  }
  const kept = { keepAlive: true, keepAliveMsecs: 5000, scheduling: 'lifo' as const, timeout: 0 }
  return { 'http:': new http.Agent(kept), 'https:': new https.Agent({ ...kept, ...tls, minVersion: 'TLSv1.2' }) }
}

class NoConnection extends Error {
  constructor() {
    super(`no connection within ${connectMs} ms`)
  }
}

/** Whether an attempt failed before anything was sent. */
function wasUnsent(error: unknown): boolean {
  return error instanceof NoConnection || (error as NodeJS.ErrnoException).code === 'ECONNREFUSED'
}

interface Sent {
  path: string
  text: string
  signal: AbortSignal
}

type Limit = ReturnType<typeof createLimit>

/**
 * Returns a signal that aborts after `ms` (null: never) and with the outer signal. `AbortSignal.any` on a signal that
 * lives as long as the process would keep every result of it (Node 20).
 */
function createLimit(ms: number | null, outer: AbortSignal | undefined) {
  const own = new AbortController()
  const abort = () => own.abort(outer?.reason)
  const timer = ms === null ? undefined : setTimeout(abort, Math.ceil(ms))
  outer?.addEventListener('abort', abort)
  if (outer?.aborted === true) abort()
  return {
    signal: own.signal,
    abort,

    /** Ends the timer, and stops listening to the outer signal. */
    end(): void {
      clearTimeout(timer)
      outer?.removeEventListener('abort', abort)
    }
  }
}

async function textOf(response: http.IncomingMessage): Promise<string> {
  const tooLong = () => new Error(`The answer of etcd is larger than ${maxAnswerBytes} bytes`)
  return (await readAtMost(response, { maxBytes: maxAnswerBytes, tooLong })).toString()
}

/** Yields the lines of an answer. A line is one JSON text. */
async function* linesOf(response: http.IncomingMessage): AsyncGenerator<string> {
  let held: Buffer[] = []
  let bytes = 0
  for await (const piece of response as AsyncIterable<Buffer>) {
    let from = 0
    for (let end = piece.indexOf(10); end !== -1; end = piece.indexOf(10, from)) {
      yield Buffer.concat([...held, piece.subarray(from, end)]).toString()
      held = []
      bytes = 0
      from = end + 1
    }
    bytes += piece.length - from
    if (bytes > maxAnswerBytes) throw new Error(`A line of etcd is larger than ${maxAnswerBytes} bytes`)
    if (from < piece.length) held.push(piece.subarray(from))
  }
}

const limitMs = 3000

/** Returns the number of members of etcd that vote; null if it does not answer, or does not tell this user. */
export async function countMembers(options: EtcdOptions): Promise<number | null> {
  const connection = new EtcdConnection(options)
  try {
    const answer = await connection.ask('/v3/cluster/member/list', {}, { limitMs })
    const members = answer['members'] as Array<{ isLearner?: boolean }>
    return members.filter(({ isLearner }) => isLearner !== true).length
  } catch {
    return null
  } finally {
    connection.close()
  }
}

/** What an operator is told about an etcd that is less safe than one member. */
export const twoMembers = 'etcd has 2 members: use three or one. Two stop when either of them does'

/** The codes of gRPC that matter here: https://grpc.io/docs/guides/status-codes/. */
const [invalidArgument, deadlineExceeded, notFound, exhausted, outOfRange, unavailable, unauthenticated] = [
  3, 4, 5, 8, 11, 14, 16
]

/** An error that etcd answered with. */
export class EtcdError extends Error {
  readonly code: number

  constructor(code: number, message: string) {
    super(`etcd: ${message.replace(/^etcdserver: /, '')}`)
    this.name = 'EtcdError'
    this.code = code
  }

  /** Whether another member, or the same one in a moment, may do it: there is no leader, or it answered too late. */
  get isPassing(): boolean {
    return this.code === unavailable || this.code === deadlineExceeded || /too many requests/.test(this.message)
  }

  /** Whether a new token is needed: the old one is unknown, or rights have changed since. */
  get isTokenRefused(): boolean {
    return (
      this.code === unauthenticated ||
      (this.code === invalidArgument && /revision of auth store is old|user name is empty/.test(this.message))
    )
  }

  /** Whether a revision was asked for that was compacted. */
  get isCompacted(): boolean {
    return this.code === outOfRange && /compacted/.test(this.message)
  }

  /** Whether etcd has no space left (alarm NOSPACE), so that it refuses everything that is new. */
  get isFull(): boolean {
    return this.code === exhausted && /space/.test(this.message)
  }

  get isNotFound(): boolean {
    return this.code === notFound
  }
}

/** No member of etcd did what was asked in time. Whether one of them did it without an answer is unknown. */
export class Unreachable extends Error {
  constructor(members: number, last: unknown) {
    const of = members === 1 ? 'etcd does not answer' : `None of the ${members} members of etcd answers`
    super(last instanceof Error ? `${of}: ${last.message}` : of, { cause: last })
    this.name = 'Unreachable'
  }

  /** Whether a later attempt may be answered: it may not if a certificate is refused. */
  get isPassing(): boolean {
    return !isTlsRefusal(this.cause)
  }
}

/** Returns the error of an answer with another status than 200. */
export function errorOf(status: number, text: string): EtcdError {
  try {
    const { code, message, error } = JSON.parse(text) as { code?: number; message?: string; error?: string }
    return new EtcdError(code ?? unavailable, message ?? error ?? `status ${status}`)
  } catch {
    return new EtcdError(unavailable, `status ${status}, which is not an answer of etcd's JSON gateway`)
  }
}
