/*
 * Finds the reply to a request: base path, route, authorization, and version of the answer. It knows tables and
 * handlers, but no socket: server.ts calls `dispatch` and writes the reply.
 */
import { randomBytes } from 'node:crypto'
import { Refusal } from '../../base/errors.js'
import { hasTag, methodReply, preflightReply } from './reply.js'
import type { Exchange } from './exchange.js'
import {
  type BodyLimits,
  createRouter,
  jsonBody,
  publicBody,
  type Reply,
  type Request,
  type RequestFacts,
  type Route,
  type Router
} from './route.js'

/** The requests that a server answers. */
export interface Table<R extends string, A> {
  routes: ReadonlyArray<Route<R, A>>
  /** Answers GET and HEAD if no route has the path: the static files. */
  fallback?(request: Request): Promise<Reply | undefined>
}

export interface DispatchOptions<R extends string, A> extends Table<R, A> {
  /** Whether the table contains only what can be answered at once. All other requests wait for `complete`. */
  isPartial?: boolean
  /** Base path as `normaliseBase` returns it. */
  base: string
  /** Returns who sent the request. A refusal becomes the reply. Called before the body is read. */
  authorize(route: Route<R, A>, facts: RequestFacts): A | Promise<A>
  /**
   * In a cluster: returns the reply if another hub answers the request, and undefined if this one does. Called before
   * the caller is known.
   */
  divert?(exchange: Exchange, route: Route<R, A>): Promise<Reply | undefined> | undefined
}

/** Called when it is known whether the client of a request is anonymous (connections.ts). */
interface ClientMarks {
  anonymous(exchange: Exchange): void
  known(exchange: Exchange): void
}

/** Answers contain secrets, so browsers must not store them on disk. The panel keeps reusable answers in memory. */
const notStored = { 'cache-control': 'no-store', vary: 'accept-encoding' }

/** Finds and calls the handlers of a table. */
export class Dispatcher<R extends string, A> {
  readonly #options: DispatchOptions<R, A>
  readonly #mark: ClientMarks
  /** Part of every version, so that versions are valid only within this process. */
  readonly #startId = randomBytes(6).toString('base64url')
  #router: Router<Route<R, A>>
  #fallback: Table<R, A>['fallback']
  /** Resolves when the table is complete; null after that. */
  #completion: Promise<void> | null = null
  #finish = (): void => {}

  constructor(options: DispatchOptions<R, A>, mark: ClientMarks) {
    this.#options = options
    this.#mark = mark
    this.#router = createRouter(options.routes)
    this.#fallback = options.fallback
    if (options.isPartial) this.#completion = new Promise<void>(resolve => void (this.#finish = resolve))
  }

  /** Replaces a partial table by the whole one. The requests that waited for it are answered. */
  complete({ routes, fallback }: Table<R, A>): void {
    this.#router = createRouter(routes)
    this.#fallback = fallback
    this.#completion = null
    this.#finish()
  }

  /** Returns the reply of the request's route. Throws or rejects with 404, 405 and every error of the handler. */
  dispatch(exchange: Exchange): Reply | Promise<Reply> {
    const { base } = this.#options
    // The local operator does not know the base path of the server.
    const path = belowBase(base, exchange.rawPath) ?? (exchange.client.local ? exchange.rawPath : undefined)
    if (path === undefined) throw notFound(exchange)
    if (path === '') return this.#toPanel(exchange)
    exchange.belowPath = path
    const match = this.#router.match(exchange.method, path)
    if (match.outcome !== 'route' && this.#completion !== null)
      return this.#completion.then(() => this.dispatch(exchange))
    if (match.outcome !== 'route' || isPublic(match.route)) this.#mark.anonymous(exchange)
    if (match.outcome === 'method') return answerMethod(exchange, match)
    if (match.outcome === 'none') return this.#fallBack(exchange)
    exchange.params = match.params
    exchange.bodyLimits = limitsOf(match.route)
    exchange.isForAnySite = match.route.cors ?? false
    const diverted = this.#options.divert?.(exchange, match.route)
    if (diverted !== undefined) return this.#follow(diverted, match.route, exchange)
    return this.#authorized(match.route, exchange)
  }

  /** Answers with the reply of another hub. The client is known if that hub accepted it. */
  async #follow(diverted: Promise<Reply | undefined>, route: Route<R, A>, exchange: Exchange): Promise<Reply> {
    const reply = await diverted
    // The table may have been replaced meanwhile, so the route is looked up again.
    if (reply === undefined) return this.dispatch(exchange)
    const isAccepted = reply.kind === 'websocket' || (reply.kind === 'stream' && reply.status < 400)
    if (isAccepted && !isPublic(route)) this.#mark.known(exchange)
    return reply
  }

  #authorized(route: Route<R, A>, exchange: Exchange): Reply | Promise<Reply> {
    const { authorize } = this.#options
    const actor = authorize(route, exchange)
    if (actor instanceof Promise) return actor.then(actor => this.#handle(route, exchange, actor))
    return this.#handle(route, exchange, actor)
  }

  #handle(row: Route<R, A>, exchange: Exchange, actor: A): Reply | Promise<Reply> {
    exchange.actor = actor
    if (!isPublic(row)) this.#mark.known(exchange)
    const request = exchange as Request<A>
    const version = row.version?.(request) ?? null
    if (version === null) return row.handle(request)
    // Read before the handler runs: a write in between makes the tag outdated, but never the answer.
    const etag = `W/"${this.#startId}-${version}"`
    if (hasTag(request.headers, etag)) return { kind: 'empty', status: 304, headers: { ...notStored, etag } }
    const reply = row.handle(request)
    return reply instanceof Promise ? reply.then(reply => tagged(reply, etag)) : tagged(reply, etag)
  }

  async #fallBack(exchange: Exchange): Promise<Reply> {
    const reply = isRead(exchange) ? await this.#fallback?.(exchange) : undefined
    if (reply === undefined) throw notFound(exchange)
    return reply
  }

  /** Redirects `/a` to `/a/`, because relative addresses in the page need the slash. */
  #toPanel(exchange: Exchange): Reply {
    if (!isRead(exchange)) throw notFound(exchange)
    const search = exchange.search === '' ? '' : `?${exchange.search}`
    return { kind: 'empty', status: 308, headers: { location: `${this.#options.base}/${search}` } }
  }
}

function isPublic({ auth }: Pick<Route, 'auth'>): boolean {
  return auth === 'public'
}

function isRead({ method }: Exchange): boolean {
  return method === 'GET' || method === 'HEAD'
}

function limitsOf(route: Route): BodyLimits {
  return route.body ?? (isPublic(route) ? publicBody : jsonBody)
}

function answerMethod(exchange: Exchange, { allow, cors }: { allow: string; cors: string }): Reply {
  const isPreflight = cors !== '' && (exchange.method as string) === 'OPTIONS'
  return isPreflight ? preflightReply(cors) : methodReply(allow)
}

function tagged(reply: Reply, etag: string): Reply {
  if (reply.kind !== 'json' || reply.status !== 200) return reply
  return { kind: 'json', status: 200, body: reply.body, headers: reply.headers, etag, text: reply.text }
}

function notFound(exchange: Exchange): Refusal {
  const path = exchange.rawPath.slice(0, 200)
  return new Refusal('not_found', 'not_found', `Not found: ${exchange.method} ${path}`)
}

/**
 * Normalises the base path of the server (§4.1): `a`, `/a` and `/a/` become `/a`; several levels are allowed; an empty
 * text or `/` becomes the empty text. Refuses a prefix that would need encoding in an address.
 */
export function normaliseBase(text: string): string {
  const segments = text.split('/').filter(segment => segment !== '')
  for (const segment of segments) {
    if (!/^[\w~.-]+$/.test(segment) || segment === '.' || segment === '..') {
      const sentence = `Invalid base path "${text}": each segment may contain letters, digits and - . _ ~`
      throw new Refusal('usage', 'invalid_base', sentence, { field: '--base' })
    }
  }
  return segments.map(segment => `/${segment}`).join('')
}

/**
 * Returns the path below the base, with a leading slash. Returns an empty text for the base itself, and undefined for a
 * path outside of it.
 */
export function belowBase(base: string, path: string): string | undefined {
  if (base === '') return path
  if (!path.startsWith(base)) return undefined
  const below = path.slice(base.length)
  return below === '' || below.startsWith('/') ? below : undefined
}
