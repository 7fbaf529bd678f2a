import type { Auth, Caller } from '../access/bearer.js'
import { createDoor } from '../base/async.js'
import { oneOf, refuseDroppedWish } from '../base/fields.js'
import { invalid, notFound, Refusal } from '../base/errors.js'
import type { Proof } from '../access/second-factor.js'
import type { BodyLimits, Method, Reply, Request, Route } from '../http/core/route.js'
import { hasControlCharacter, oneLine } from '../base/text.js'
import { sha256 } from '../base/digests.js'

/** A request to the API, with its authenticated caller. */
export type ApiRequest = Request<Caller>
/** Answers a request. It returns a reply or throws a `Refusal`; it writes nothing itself. */
export type Handler = (request: ApiRequest) => Reply | Promise<Reply>
/**
 * What a request can do. Every route says it. The user of a browser session must have given the secret lately for all that
 * is more than `reads`, `signs` and `works`: a browser that was left open must not be enough for it (access/second-factor.ts).
 *
 * - `reads`: shows what the caller may see, and no secret
 * - `signs`: signs in or out. What needs a secret there is in the request itself
 * - `works`: changes something that brings no command, no secret and no right
 * - `node`: what a node of the fleet asks with its own key
 * - `commands`: stores or runs a command
 * - `secrets`: answers a secret, or makes a file readable
 * - `rights`: changes rights, accounts or settings
 * - `moves`: takes the data away, or brings some in
 * - `places`: decides which machine gets what
 * - `depends`: one of these, by its body or answer. The handler asks `Proof` (model/project.ts says what is a command)
 */
const powers = {
  reads: false,
  signs: false,
  works: false,
  node: false,
  depends: false,
  commands: true,
  secrets: true,
  rights: true,
  moves: true,
  places: true
} as const
export type Power = keyof typeof powers

/** Whether requests with this power always need a proof. */
export function needsProof(power: Power): boolean {
  return powers[power]
}

/** A row of the table of routes. */
export interface ApiRoute extends Route<Auth, Caller> {
  /** The project that a request concerns. */
  scope: Scope
  /** What a request can do. */
  power: Power
  /** Whether it concerns the target of the project on this server, which a project on nodes does not have. */
  isOnTarget?: boolean
  /** Whether `dryRun` in the query is read. Every other route that may change something refuses it there. */
  hasTrial?: boolean
  /** The parameters of the query that may come several times. */
  repeats?: readonly string[]
  /** Whether users of a hub may ask a node for it, through the hub. */
  isRelayed?: boolean
}

/**
 * Returns a row of the table of routes. Without a rule, a scope and a power it does not compile.
 * biome-ignore lint/complexity/useMaxParams: a row of the table of routes is on one line
 */
export function row(method: Method, path: string, auth: Auth, scope: Scope, power: Power, handle: Handler): ApiRoute {
  return { method, path, auth, scope, power, handle }
}

/**
 * Returns handlers whose file is loaded with the first request that needs one of them, or soon after the start
 * (base/async.ts).
 */
export function later<H extends Record<string, Handler>>(load: () => Promise<H>): Record<keyof H & string, Handler> {
  const door = createDoor(load)
  const handlerOf = (name: string): Handler => {
    return request => {
      const handlers = door.opened()
      if (handlers === undefined) return door().then(made => (made[name] as Handler)(request))
      return (handlers[name] as Handler)(request)
    }
  }
  return new Proxy({} as Record<keyof H & string, Handler>, { get: (_, name) => handlerOf(name as string) })
}

/** Refuses (409 `project_is_placed`) projects that are placed on nodes: they have no target on this server. */
export function onTarget(route: ApiRoute): ApiRoute {
  return { ...route, isOnTarget: true }
}

/** Lets a request say `dryRun` in the query. */
export function withTrial(route: ApiRoute): ApiRoute {
  return { ...route, hasTrial: true }
}

/** Lets a parameter of the query come several times. */
export function repeating(names: readonly string[], route: ApiRoute): ApiRoute {
  return { ...route, repeats: names }
}

/** Sets the limits of the body of a route. */
export function taking(body: BodyLimits, route: ApiRoute): ApiRoute {
  return { ...route, body }
}

/** In a cluster, the leader answers: what it answers is in its memory, or the request may write. */
export function byLeader(route: ApiRoute): ApiRoute {
  return { ...route, answeredBy: 'leader' }
}

/** In a cluster, the leader answers if there is one. Without one, any hub answers what it knows. */
export function byLeaderIfAny(route: ApiRoute): ApiRoute {
  return { ...route, answeredBy: 'leader_if_any' }
}

/** Lets users of a hub ask a node for it, through the hub (`GET /api/nodes/:node/at/…`). */
export function relayed<R extends ApiRoute>(route: R): R {
  return { ...route, isRelayed: true }
}

/** Allows pages of any other origin to call the route. */
export function crossOrigin(route: ApiRoute): ApiRoute {
  return { ...route, cors: true }
}

/** Tables of the store. If SQLite changes a row by itself (cascade), the table of the causing row counts too. */
export type Table =
  | 'projects'
  | 'projectTags'
  | 'categories'
  | 'tags'
  | 'deployments'
  | 'rollouts'
  | 'audit'
  | 'locks'
  | 'logSources'
  | 'settings'
  | 'sessions'
  | 'tokens'

/**
 * Declares that the answers of a route depend on these tables of the store and on nothing else: not on the time, a disk
 * or the memory of a service. The server then answers 304 to a client that has the current answer, without calling
 * the handler. `unless` excludes requests for which this is not true.
 */
export function depending(
  depends: readonly Table[],
  route: ApiRoute,
  unless?: (request: ApiRequest) => boolean
): DependingRoute {
  return { ...route, depends, unless }
}

/** What completes the routes. */
interface Completion {
  lookup: ProjectLookup
  proof: Pick<Proof, 'check' | 'isRecent'>
  /** Refuses 409 `project_is_placed`. */
  refusePlaced(projectId: string): void
  version(tables: readonly string[]): string
  /** Whether results wait in memory for the database. Then the tables do not cover what answers contain. */
  hasUnwritten(): boolean
}

/**
 * Completes the routes: each checks the scope of its caller, and the declared tables become versions. A version includes
 * the caller if its answers may differ from those of others.
 */
export function completed(
  routes: ReadonlyArray<ApiRoute | DependingRoute>,
  { lookup, version, hasUnwritten, proof, refusePlaced }: Completion
): ApiRoute[] {
  return routes.map(route => {
    const { depends, unless, ...plain } = { depends: undefined, unless: undefined, ...route }
    const check = (request: ApiRequest): void => {
      if (request.actor.isRelayed && !route.isRelayed) throw notRelayed()
      checkScope(route.scope, request, lookup)
      refuseDoubled(request.query, route.repeats)
    }
    const handle: Handler = request => {
      check(request)
      if (route.isOnTarget) refusePlaced(param(request, 'id'))
      if (route.method !== 'GET' && !route.hasTrial) for (const name of request.query.keys()) refuseDroppedWish(name)
      if (needsProof(route.power)) proof.check(request.actor.provenAt)
      return route.handle(request)
    }
    if (depends === undefined) return { ...plain, handle }
    // One list per route, because the store caches its versions by list.
    const ofNamed = [...depends, 'tokens']
    return {
      ...plain,
      handle,
      version(request) {
        check(request)
        if (unless?.(request) || hasUnwritten()) return null
        const { token, projectId, provenAt } = request.actor
        // An answer that depends on the proof must not be taken for the one from before it.
        if (route.power === 'depends' && !proof.isRecent(provenAt)) return null
        if (token !== undefined) return `${version(ofNamed)}-${token.id}`
        return projectId === null ? version(depends) : `${version(depends)}-${projectId}`
      }
    }
  })
}

/** Refuses a parameter that comes twice: a reader of the log, or a proxy, may take another one than the handler. */
function refuseDoubled(query: URLSearchParams, repeats: readonly string[] = []): void {
  const seen = new Set<string>()
  for (const name of query.keys()) {
    if (seen.has(name) && !repeats.includes(name)) {
      const sentence = `Cannot read the request: "${oneLine(name)}" is in its query twice`
      throw new Refusal('invalid', 'invalid_request', sentence, { field: name })
    }
    seen.add(name)
  }
}

/** Returns the 404 for what a node does not tell the users of its hub. */
export function notRelayed(): Refusal {
  return new Refusal('not_found', 'not_relayed', 'This is not available through the hub. Ask the node itself')
}

interface DependingRoute extends ApiRoute {
  depends: readonly Table[]
  unless: ((request: ApiRequest) => boolean) | undefined
}

/** Returns a parameter of the path. Throws if the path of the route does not contain it, which is a bug. */
export function param(request: ApiRequest, name: string): string {
  const value = request.params[name]
  if (value === undefined) throw new Error(`The path of this route has no parameter "${name}"`)
  return value
}

/*
 * Which project a request concerns. Every row of the table of routes says it. A caller that is limited to projects gets
 * 404 for every other project, as for one that does not exist, so that it cannot find out which ids exist.
 */

/**
 * - `none`: no project; the route is public, or about the caller itself
 * - `server`: the whole server; callers that are limited to projects are refused
 * - `filtered`: the handler limits its answer to the projects of the caller
 * - `given`: the handler reads the project from the query or body, and checks it with `checkProject`
 * - `project`, `deployment`, `logSource`, `rollout`: the parameter of the path is the id of one
 */
export type Scope = 'none' | 'server' | 'filtered' | 'given' | 'project' | 'deployment' | 'logSource' | 'rollout'

/** Finds the project of a record. Undefined: there is no such record. */
export interface ProjectLookup {
  ofDeployment(id: string): string | undefined
  ofLogSource(id: string): string | undefined
  ofRollout(id: string): string | undefined
}

/**
 * Refuses a request that concerns another project than those of its caller. Refuses: 404, 403 `scope_too_narrow`; for
 * the deploy token of a project 403 `other_project`.
 */
export function checkScope(
  scope: Scope,
  { actor, params }: Pick<Request<Caller>, 'actor' | 'params'>,
  lookup: ProjectLookup
): void {
  if (actor.projects === null) return
  const id = params['id'] ?? params['deployId'] ?? params['sourceId'] ?? params['rolloutId'] ?? ''
  if (scope === 'server') throw scopeTooNarrow(actor)
  if (scope === 'project') checkProject(actor, id, () => notFound('Project', id))
  else if (scope === 'deployment') checkFound(actor, lookup.ofDeployment(id), () => notFound('Deployment', id))
  else if (scope === 'logSource') checkFound(actor, lookup.ofLogSource(id), () => notFound('Log source', id))
  else if (scope === 'rollout') checkFound(actor, lookup.ofRollout(id), () => notFound('Rollout', id))
}

/**
 * A missing record is refused here as well: a handler may find a fault of the body first, and a limited caller would see
 * the difference. For a deploy token the handler answers.
 */
function checkFound(actor: Caller, projectId: string | undefined, unknown: () => Refusal): void {
  if (projectId !== undefined) checkProject(actor, projectId, unknown)
  else if (actor.role !== 'project') throw unknown()
}

/** Refuses a project that is not one of the caller's: with `unknown`, or 403 `other_project` for a deploy token. */
export function checkProject(
  actor: Pick<Caller, 'projects' | 'role'>,
  projectId: string,
  unknown: () => Refusal
): void {
  if (actor.projects === null || actor.projects.includes(projectId)) return
  throw actor.role === 'project' ? otherProject() : unknown()
}

/** Returns the 403 for the deploy token of another project. */
export function otherProject(field?: string): Refusal {
  const details = field === undefined ? {} : { field }
  return new Refusal('forbidden', 'other_project', 'This deploy token belongs to another project', details)
}

function scopeTooNarrow({ token }: Caller): Refusal {
  const sentence = `Permission denied: this concerns the whole server, and the token "${token?.name}" is limited to projects`
  return new Refusal('forbidden', 'scope_too_narrow', sentence)
}

/**
 * Returns the body of a request that is kept as it comes. Refuses 415 `unsupported_type` if it is compressed: nobody would
 * decompress it.
 */
export function bodyAsSent({ headers, body }: Pick<ApiRequest, 'headers' | 'body'>): ApiRequest['body'] {
  const coding = headers['content-encoding']?.trim().toLowerCase() ?? 'identity'
  if (coding === 'identity') return body
  const sentence = 'Cannot read the body: it has a Content-Encoding. Send it without one'
  throw new Refusal('unsupported_type', 'unsupported_type', sentence)
}

/**
 * Reads a whole number from 1 in the query. Returns `max` for larger numbers, and `fallback` if the parameter is absent
 * or empty.
 */
export function queryLimit(
  query: URLSearchParams,
  field: string,
  { fallback, max }: { fallback: number; max: number }
): number {
  const given = query.get(field)
  if (given === null || given === '') return fallback
  if (!/^\d{1,9}$/.test(given) || Number(given) < 1) {
    throw invalid(field, `"${field}" is "${given}": expected a whole number from 1 to ${max}`)
  }
  return Math.min(Number(given), max)
}

/** Reads a byte offset in the query. Returns undefined if the parameter is absent or empty. */
export function queryOffset(query: URLSearchParams, field: string): number | undefined {
  const given = query.get(field)
  if (given === null || given === '') return undefined
  if (/^\d{1,15}$/.test(given)) return Number(given)
  throw invalid(field, `"${field}" is "${given}": expected a byte offset, a whole number from 0`)
}

/** Reads one of `values` in the query. Returns undefined if the parameter is absent or empty. */
export function queryChoice<T extends string>(
  query: URLSearchParams,
  field: string,
  values: readonly T[]
): T | undefined {
  const given = query.get(field)
  return given === null || given === '' ? undefined : oneOf(values)(given, field)
}

/** Reads a text in the query. Returns undefined if the parameter is absent or empty. */
export function queryText(query: URLSearchParams, field: string): string | undefined {
  return query.get(field) || undefined
}

/** Reads a path without control characters in the query. Returns undefined if the parameter is absent or empty. */
export function queryPath(query: URLSearchParams, field: string): string | undefined {
  const given = queryText(query, field)
  if (given !== undefined && hasControlCharacter(given))
    throw invalid(field, `"${field}" must not contain control characters`)
  return given
}

/** Reads `true`, `1`, `false` or `0` in a query or a form. Returns undefined if the value is absent or empty. */
export function switchText(given: string | null | undefined, field: string): boolean | undefined {
  if (given === null || given === undefined || given === '') return undefined
  if (given === 'true' || given === '1') return true
  if (given === 'false' || given === '0') return false
  throw invalid(field, `"${field}" is "${given}": expected true, false, 1 or 0`)
}

/** Returns the JSON body of a request that needs none, or an empty object if there is no body. */
export async function optionalBody(request: ApiRequest): Promise<unknown> {
  const { headers } = request
  const hasBody = headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
  return hasBody ? request.json() : {}
}

/* Reads the bodies of requests that a node has signed: the signature covers their digest. */

/** Reads the whole body, within the limits of the route. Refuses 400 `wrong_digest`, 413 `too_large`. */
export async function signedBytes(request: ApiRequest): Promise<Buffer> {
  const bytes = await request.bytes()
  if (sha256(bytes).toString('hex') === request.actor.node?.bodySha256) return bytes
  throw new Refusal('invalid', 'wrong_digest', 'The body of the request is not the one that was signed')
}

/** Reads the body as JSON. Refuses 400 `invalid_body`, and what `signedBytes` refuses. */
export async function signedJson(request: ApiRequest): Promise<unknown> {
  return jsonOf(await signedBytes(request))
}

/** Returns the value of a body. Refuses 400 `invalid_body`. */
export function jsonOf(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString('utf8'))
  } catch (error) {
    throw new Refusal('invalid', 'invalid_body', 'Cannot read the body: it is not valid JSON', { cause: error })
  }
}

/** The header with the id that a client gives its request, to find the deployment later (`GET /api/logs?traceId=`). */
const header = 'X-Svc-Trace-Id'
const form = /^[\x21-\x7e]{1,200}$/

/** Returns the id that the client gave the request; null if it gave none. Refuses: 400 naming the header. */
export function traceIdOf({ headers }: Pick<ApiRequest, 'headers'>): string | null {
  const given = headers[header.toLowerCase()]
  if (given === undefined || given === '') return null
  if (typeof given === 'string' && form.test(given)) return given
  throw invalid(header, `"${header}" is invalid: expected at most 200 visible ASCII characters without spaces`)
}
