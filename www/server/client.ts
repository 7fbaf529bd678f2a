import { hasDots } from '../dom/address.js'
import type { SignedIn } from '../../lib/model/access.js'
import type { Session } from '../state/session.js'
import { routePath } from '../shared/api.js'
import type { Answered, Arguments, Given, Route } from '../../lib/api/map/routes.js'

/*
 * The clock of the server. Times of records are the server's, so ages and remaining times are measured by its clock: that of
 * the browser may be wrong by hours. Each answer has a header `Date`, in whole seconds.
 */

/** Differences below this are no more than the header and the way of the answer explain. */
const toleratedMs = 2000
/** An answer that took longer says too little about the time. */
const maxWayMs = 10_000
const halfSecondMs = 500

/** How far the clock of the server is ahead of that of the browser. */
let aheadMs = 0

/** Returns the time by the clock of the server. */
export function serverNow(): number {
  return Date.now() + aheadMs
}

/** Takes note of the header `Date` of an answer to a request that was sent at `sentAtMs` by the clock of the browser. */
export function noteServerDate(date: string | null, sentAtMs: number): void {
  const nowMs = Date.now()
  const wayMs = nowMs - sentAtMs
  const dateMs = Date.parse(date ?? '')
  if (Number.isNaN(dateMs) || wayMs < 0 || wayMs > maxWayMs) return
  const measuredMs = dateMs + halfSecondMs - (sentAtMs + wayMs / 2)
  if (Math.abs(measuredMs) <= toleratedMs) aheadMs = 0
  else if (Math.abs(measuredMs - aheadMs) > toleratedMs) aheadMs = measuredMs
}

/** A refusal of the server. The message is for the user, the code for programs. */
export class Refused extends Error {
  readonly status: number
  readonly code: string
  /** The wrong input, if there is one. */
  readonly field: string | undefined
  /** Seconds after which a retry may succeed. */
  readonly retryAfterSeconds: number | undefined

  constructor(status: number, body: { error?: unknown; code?: unknown; field?: unknown }, retryAfter: string | null) {
    super(typeof body.error === 'string' ? body.error : `The server answered ${status} without saying why.`)
    this.name = 'Refused'
    this.status = status
    this.code = typeof body.code === 'string' ? body.code : 'unknown'
    this.field = typeof body.field === 'string' ? body.field : undefined
    this.retryAfterSeconds = retryAfter === null ? undefined : Number(retryAfter)
  }
}

/** A request that did not reach the server, or whose answer was cut. */
export class Unreachable extends Error {
  constructor(cause: unknown) {
    super('The server cannot be reached: check that it runs, and the network between.', { cause })
    this.name = 'Unreachable'
  }
}

/** Sends requests to the server. */
export interface Client {
  call: Call
  /** Returns the address of a path below the base, for example `api/projects`. */
  address(path: string): string
  /** Returns the JSON of the answer. Throws Refused, Unreachable, or the reason of the signal. */
  ask<T>(method: Method, path: string, options?: SendOptions): Promise<T>
  /** Returns the answer after its status was checked. */
  send(method: Method, path: string, options?: SendOptions): Promise<Response>
  /** Returns the headers that a change needs, for requests without fetch. */
  changeHeaders(): Promise<Record<string, string>>
  /** Asks the user for the token if the server would, for requests without fetch. Throws Refused if the user cancels. */
  ensureProven(): Promise<void>
}

/** A header of every request. Pages of other origins cannot send it (lib/http/core/headers.ts). */
const panelHeader = 'x-svc-panel'
const csrfHeader = 'x-svc-csrf'
/** The age in seconds of what a hub answers that is cut off from its cluster. */
const staleHeader = 'x-svc-stale'
/** Refusals with status 401 that concern the fields of a form, not the session. */
const formCodes: ReadonlySet<string> = new Set(['wrong_token', 'wrong_code', 'code_required'])

/**
 * Creates the client. The browser adds the session's cookie to each request. A 401 ends the session. If the server asks
 * for the token again, `prove` asks the user, and returns whether the request can be repeated.
 */
export function createClient(needs: {
  base: string
  session: Session
  connection: Connection
  prove?: () => Promise<boolean>
  fetch?: typeof globalThis.fetch
}): Client {
  const { base, session, connection, fetch = globalThis.fetch.bind(globalThis) } = needs
  const { prove = async () => false } = needs
  const answers = createAnswers()
  const address = (path: string): string => {
    // An id of a record must not lead a request to another route.
    if (hasDots(path)) throw new TypeError(`Not a path of the server: "${path}"`)
    return new URL(path, base).href
  }

  /** Returns the token against cross-site requests: from the sign-in, or requested before the first change. */
  async function csrf(): Promise<string> {
    if (session.csrf !== null) return session.csrf
    const { csrf } = await ask<{ csrf: string | null }>('GET', 'api/auth/session')
    return (session.csrf = csrf ?? '')
  }

  async function changeHeaders(): Promise<Record<string, string>> {
    return session.id === null ? { [panelHeader]: '1' } : { [panelHeader]: '1', [csrfHeader]: await csrf() }
  }

  async function send(method: Method, path: string, options: SendOptions = {}): Promise<Response> {
    try {
      return await sendSigned(method, path, options)
    } catch (error) {
      if (!(error instanceof Refused) || error.code !== 'proof_required' || !(await prove())) throw error
      return await sendSigned(method, path, options)
    }
  }

  async function sendSigned(method: Method, path: string, options: SendOptions): Promise<Response> {
    try {
      return await sendOnce(method, path, options)
    } catch (error) {
      // Another tab has signed in again, so this tab has the new session too.
      if (!(error instanceof Refused) || error.code !== 'wrong_csrf') throw error
      session.csrf = null
      return await sendOnce(method, path, options)
    }
  }

  async function sendOnce(method: Method, path: string, options: SendOptions): Promise<Response> {
    const { body, headers, alsoGood, signal } = options
    const sent = new Headers(headers)
    const own = method === 'GET' ? { [panelHeader]: '1' } : await changeHeaders()
    for (const [name, value] of Object.entries(own)) sent.set(name, value)
    const { id } = session
    const isBlob = body instanceof Blob
    if (body !== undefined) sent.set('content-type', isBlob ? body.type : 'application/json')
    const known = method === 'GET' ? answers.find(path, id) : undefined
    if (known !== undefined) sent.set('if-none-match', known.tag)
    let response: Response
    const sentAtMs = Date.now()
    try {
      response = await fetch(address(path), {
        method,
        headers: sent,
        body: body === undefined ? null : isBlob ? body : JSON.stringify(body),
        signal: signal ?? null
      })
    } catch (error) {
      signal?.throwIfAborted()
      connection.set('lost')
      throw new Unreachable(error)
    }
    noteServerDate(response.headers.get('date'), sentAtMs)
    connection.set(isFromGateway(response) ? 'lost' : 'open')
    const stale = response.headers.get(staleHeader)
    connection.setStale(stale === null ? null : Number(stale))
    if (response.status === 304 && known !== undefined) return known.answer.clone()
    if (method === 'GET' && response.ok) {
      try {
        return await answers.keep(path, id, response)
      } catch (error) {
        signal?.throwIfAborted()
        throw new Unreachable(error)
      }
    }
    if (response.ok || response.status === alsoGood) return response
    const refused = await refusedBy(response)
    const isOurs = refused.status === 401 && !formCodes.has(refused.code)
    if (isOurs && id !== null && session.id === id) session.end('expired')
    throw refused
  }

  async function ask<T>(method: Method, path: string, options?: SendOptions): Promise<T> {
    const response = await send(method, path, options)
    try {
      return await response.json()
    } catch (error) {
      options?.signal?.throwIfAborted()
      throw new Unreachable(error)
    }
  }

  async function ensureProven(): Promise<void> {
    const { needsProof } = await ask<Pick<SignedIn, 'needsProof'>>('GET', 'api/auth/session')
    if (!needsProof || (await prove())) return
    throw new Refused(403, { error: 'Nothing was done without your token.', code: 'proof_required' }, null)
  }

  return { call: createCall(ask), address, send, ask, changeHeaders, ensureProven }
}

/** Number of cached answers. The oldest one is removed. */
const keptAnswers = 10

interface Answer {
  session: string | null
  tag: string
  answer: Response
}

/** Caches the last JSON answers with an ETag in memory. Browsers may not store them on disk (`no-store`). */
function createAnswers() {
  const kept = new Map<string, Answer>()
  return {
    find(path: string, session: string | null): Answer | undefined {
      const known = kept.get(path)
      return known?.session === session ? known : undefined
    },
    async keep(path: string, session: string | null, response: Response): Promise<Response> {
      const tag = response.headers.get('etag')
      const isJson = response.headers.get('content-type')?.startsWith('application/json') ?? false
      kept.delete(path)
      if (tag === null || !isJson || response.status !== 200) return response
      const answer = new Response(await response.text(), { headers: response.headers })
      kept.set(path, { session, tag, answer })
      if (kept.size > keptAnswers) kept.delete(kept.keys().next().value as string)
      return answer.clone()
    }
  }
}

/** Whether a proxy answered because it did not reach the server. Answers of the server are JSON. */
function isFromGateway({ status, headers }: Response): boolean {
  const isJson = headers.get('content-type')?.startsWith('application/json') ?? false
  return (status === 502 || status === 503 || status === 504) && !isJson
}

async function refusedBy(response: Response): Promise<Refused> {
  const body: unknown = await response.json().catch(() => null)
  return new Refused(response.status, { ...(body as object | null) }, response.headers.get('retry-after'))
}

/** State of the connection: the last request was answered or not. */
export type ConnectionState = 'open' | 'lost'

/** The connection to the server. Dispatches `change` when its state changes, and `stale` when `staleSeconds` does. */
export interface Connection extends EventTarget {
  readonly state: ConnectionState
  /** Time of the last answer in milliseconds since the epoch; null before the first. */
  readonly answeredAtMs: number | null
  /** The age of the last answer, if a hub gave it that is cut off from its cluster; else null. */
  readonly staleSeconds: number | null
  setStale(seconds: number | null): void
  set(state: ConnectionState): void
}

/** Creates the state of the connection. Requests and streams report to it, and the frame shows it. */
export function createConnection(clock: () => number = serverNow): Connection {
  class Observed extends EventTarget implements Connection {
    #state: ConnectionState = 'open'
    #answeredAtMs: number | null = null
    #staleSeconds: number | null = null

    get staleSeconds(): number | null {
      return this.#staleSeconds
    }

    get answeredAtMs(): number | null {
      return this.#answeredAtMs
    }

    get state(): ConnectionState {
      return this.#state
    }

    setStale(seconds: number | null): void {
      if (seconds === this.#staleSeconds) return
      this.#staleSeconds = seconds
      this.dispatchEvent(new Event('stale'))
    }

    set(state: ConnectionState): void {
      if (state === 'open') this.#answeredAtMs = clock()
      if (state === this.#state) return
      this.#state = state
      this.dispatchEvent(new Event('change'))
    }
  }
  return new Observed()
}

/* Routes of the API by their names. */

/** The HTTP methods of the API. */
export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

export interface SendOptions {
  /** Sent as JSON, or unchanged if it is a Blob. */
  body?: unknown
  headers?: Record<string, string>
  /** A status besides 2xx that is not a refusal. */
  alsoGood?: number
  signal?: AbortSignal | undefined
}

/** Sends a request, and returns the JSON of its answer. */
type Ask = <T>(method: Method, path: string, options?: SendOptions) => Promise<T>

/** Asks a route of the map (lib/api/map), which says what it takes and answers. Rejects as `Client.ask` does. */
export type Call = <R extends Route>(
  route: R,
  ...given: Arguments<R, Omit<SendOptions, 'body'>>
) => Promise<Answered<R>>

/** Returns the function that asks routes. */
export function createCall(ask: Ask): Call {
  return (route, ...[given = {}]) => {
    const { body, headers, alsoGood, signal } = given as SendOptions
    const options: SendOptions = {
      ...(body !== undefined && { body }),
      ...(headers && { headers }),
      ...(alsoGood !== undefined && { alsoGood }),
      ...(signal && { signal })
    }
    return ask(route.split(' ')[0] as Method, placeOf(route, given as object), options)
  }
}

/** Returns the path of a route below the base, with its parameters and its query. */
export function placeOf<R extends Route>(route: R, given: Partial<Given<R>>): string {
  const values = given as Record<string, unknown>
  const path = routePath(route, values).slice(1)
  const query = Object.entries((values['query'] ?? {}) as Record<string, unknown>)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => [name, String(value)])
  return query.length === 0 ? path : `${path}?${new URLSearchParams(query)}`
}

/** Returns the header that limits a change to one state of a record. Null sets no limit. */
export function ifMatch(tag: string | null): Record<string, string> {
  return tag === null ? {} : { 'if-match': `"${tag}"` }
}
