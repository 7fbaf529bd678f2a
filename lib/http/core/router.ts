import { Refusal } from '../../base/errors.js'
import type { Method, Route } from './route.js'

/** The route of a request, or what else is known about its path. */
export type Match<T extends Route = Route> =
  | { outcome: 'route'; route: T; params: Record<string, string> }
  /** `cors` lists the methods that pages of other origins may use here; empty if there are none. */
  | { outcome: 'method'; allow: string; cors: string }
  | { outcome: 'none' }

/** Finds the route of a request. */
export interface Router<T extends Route = Route> {
  /**
   * Finds the route for a path that is still percent-encoded. HEAD finds the route of GET. Refuses: 400 `invalid_path`
   * for an invalid encoding, and for `.` and `..` segments, which no honest client sends.
   */
  match(method: string, path: string): Match<T>
}

/** A route and the positions of its parameters. All segments from `rest` on are one parameter. */
interface End<T extends Route> {
  route: T
  names: Array<{ name: string; at: number }>
  rest: { name: string; from: number } | undefined
}

type Ends<T extends Route> = Map<Method, End<T>>

/**
 * A node of the routing tree: the routes that end here, by method, and the next nodes: for a word, for any segment
 * (`:name`), or for the rest (`*name`).
 */
interface Node<T extends Route> {
  ends: Ends<T>
  words: Map<string, Node<T>>
  any: Node<T> | undefined
  rest: Ends<T>
}

const none = { outcome: 'none' } as const
const noParams: Record<string, string> = Object.freeze({})

/** Creates a router for a table. Throws if two routes have the same method and path. */
export function createRouter<T extends Route>(routes: readonly T[]): Router<T> {
  const root = createNode<T>()
  const fixed = new Map<string, Ends<T>>()
  for (const route of routes) {
    const ends = place(root, route)
    if (ends.has(route.method)) throw new Error(`Two routes answer ${route.method} ${route.path}`)
    ends.set(route.method, createEnd(route))
    if (!/\/[:*]/.test(route.path)) fixed.set(route.path, ends)
  }

  return {
    match(method, path) {
      const wanted = (method === 'HEAD' ? 'GET' : method) as Method
      const end = fixed.get(path)?.get(wanted)
      if (end !== undefined) return { outcome: 'route', route: end.route, params: noParams }
      return find(root, wanted, pathSegments(path))
    }
  }
}

/** Returns the decoded segments after the leading slash. Refuses as `Router.match` does. */
export function pathSegments(path: string): string[] {
  const segments = split(path)
  if (path.includes('%')) {
    for (let i = 0; i < segments.length; i++) segments[i] = decodeSegment(segments[i] as string)
  } else if (!path.includes('/.')) {
    return segments
  }
  for (const segment of segments) {
    if (segment === '.' || segment === '..' || segment.includes('\0')) throw badPath()
  }
  return segments
}

/**
 * Same as `path.slice(1).split('/')` in a third of the time. Each request of a route with parameters needs it
 * (bench/api).
 */
function split(path: string): string[] {
  const segments: string[] = []
  let from = 1
  for (let at = path.indexOf('/', 1); at !== -1; at = path.indexOf('/', from)) {
    segments.push(path.slice(from, at))
    from = at + 1
  }
  segments.push(path.slice(from))
  return segments
}

function decodeSegment(segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch (error) {
    throw badPath(error)
  }
}

function badPath(cause?: unknown): Refusal {
  const sentence = 'The path cannot be read: it must be percent-encoded UTF-8 without "." and ".." segments'
  return new Refusal('invalid', 'invalid_path', sentence, { cause })
}

function createNode<T extends Route>(): Node<T> {
  return { ends: new Map(), words: new Map(), any: undefined, rest: new Map() }
}

function createEnd<T extends Route>(route: T): End<T> {
  const end: End<T> = { route, names: [], rest: undefined }
  for (const [at, segment] of route.path.slice(1).split('/').entries()) {
    if (segment.startsWith(':')) end.names.push({ name: segment.slice(1), at })
    else if (segment.startsWith('*')) end.rest = { name: segment.slice(1), from: at }
  }
  return end
}

function place<T extends Route>(root: Node<T>, route: T): Ends<T> {
  if (!route.path.startsWith('/')) throw new Error(`The path of a route must begin with a slash: ${route.path}`)
  const segments = route.path.slice(1).split('/')
  let node = root
  for (const [i, segment] of segments.entries()) {
    if (segment.startsWith('*')) {
      if (i !== segments.length - 1) throw new Error(`A "*" segment must be the last segment: ${route.path}`)
      return node.rest
    }
    node = segment.startsWith(':') ? (node.any ??= createNode()) : word(node, segment)
  }
  return node.ends
}

function word<T extends Route>(node: Node<T>, segment: string): Node<T> {
  let next = node.words.get(segment)
  if (next === undefined) node.words.set(segment, (next = createNode()))
  return next
}

/**
 * Returns the most specific route with the method: a word comes before `:name`, and that before `*name`. A route that
 * matches the path but not the method does not hide a less specific one that has the method.
 */
function find<T extends Route>(root: Node<T>, method: Method, segments: string[]): Match<T> {
  const fitting: Array<Ends<T>> = []
  collect(root, segments, { at: 0, into: fitting })
  for (const ends of fitting) {
    const end = ends.get(method)
    if (end !== undefined) return { outcome: 'route', route: end.route, params: readParams(end, segments) }
  }
  if (fitting.length === 0) return none
  const rows = fitting.flatMap(ends => [...ends.values()].map(end => end.route))
  return { outcome: 'method', allow: allowed(rows), cors: allowed(rows.filter(row => row.cors)) }
}

interface Search<T extends Route> {
  at: number
  into: Array<Ends<T>>
}

function collect<T extends Route>(node: Node<T>, segments: string[], { at, into }: Search<T>): void {
  if (at === segments.length) {
    if (node.ends.size > 0) into.push(node.ends)
    return
  }
  const segment = segments[at] as string
  const next = { at: at + 1, into }
  const way = node.words.get(segment)
  if (way !== undefined) collect(way, segments, next)
  if (node.any !== undefined && segment !== '') collect(node.any, segments, next)
  if (node.rest.size > 0) into.push(node.rest)
}

function readParams({ names, rest }: End<Route>, segments: string[]): Record<string, string> {
  const params: Record<string, string> = {}
  for (const { name, at } of names) params[name] = segments[at] as string
  if (rest !== undefined) params[rest.name] = segments.slice(rest.from).join('/')
  return params
}

function allowed(rows: Route[]): string {
  const methods = new Set<string>(rows.map(row => row.method))
  if (methods.has('GET')) methods.add('HEAD')
  if (rows.some(row => row.cors)) methods.add('OPTIONS')
  return [...methods].sort().join(', ')
}
