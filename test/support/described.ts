/*
 * Checks answers against the description of the API: whatever a test asks, the path, the query, the status, the body
 * and the code of an error must be those that the document has. The client of the tests (client.ts) uses it for every
 * answer.
 */
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import formats from 'ajv-formats'
import { readFileSync } from 'node:fs'
import { errorCodes } from '../../lib/api/errors.js'
import type { ApiRoute } from '../../lib/api/route.js'
import { apiRoutes } from '../../lib/api/routes.js'
import { statusOf } from '../../lib/http/core/reply.js'

/** A stand-in for services whose handlers are created but never called. */
const nothing: any = new Proxy(() => nothing, { get: () => nothing })

/** An operation of the document, as far as tests read it. */
export interface Described {
  summary: string
  parameters: Array<{ in: string; name: string }>
  requestBody?: { content: Record<string, { schema: { properties?: Record<string, unknown> } }> }
  responses: Record<string, { $ref?: string; headers?: Record<string, unknown> }>
}

/** The document, as `make build` writes it beside the program. */
export interface Document {
  paths: Record<string, Record<string, Described>>
  [part: string]: unknown
}

/** Returns the document that the built program serves. */
export function readDocument(): Document {
  return JSON.parse(readFileSync(new URL('../../lib/api/openapi.json', import.meta.url), 'utf8')) as Document
}

/** Returns the HTTP status of an error code. */
export function statusOfCode(code: string): number {
  const entry = errorCodes[code]
  if (entry === undefined) throw new Error(`The table of error codes has no "${code}"`)
  return entry.kind === 'bug' ? 500 : statusOf[entry.kind]
}

/** Returns the operation of a route. */
export function operationOf({ paths }: Document, { method, path }: Pick<ApiRoute, 'method' | 'path'>): Described {
  const found = paths[path.replace(/[:*](\w+)/g, '{$1}')]?.[method.toLowerCase()]
  if (found === undefined) throw new Error(`The document has no ${method} ${path}`)
  return found
}

export interface Seen {
  method: string
  /** The path with the query, below the origin. */
  path: string
  status: number
  contentType: string
  body: unknown
}

/** Returns the whole document, and a function that says how an answer contradicts it. */
export function createDescription() {
  const routes = apiRoutes(nothing)
  const document = readDocument()
  const ajv = new Ajv2020({ strict: false, allErrors: false, validateSchema: false, code: { optimize: false } })
  ;(formats as unknown as (ajv: Ajv2020) => void)(ajv)
  ajv.addSchema(document, 'api')
  const validators = new Map<string, ValidateFunction>()

  function validator(route: ApiRoute, status: number): ValidateFunction {
    const path = route.path.replace(/[:*](\w+)/g, '{$1}')
    const answer = ['', 'paths', path, route.method.toLowerCase(), 'responses', String(status)]
      .map(part => part.replaceAll('~', '~0').replaceAll('/', '~1'))
      .map(encodeURIComponent)
      .join('/')
    const shared = operationOf(document, route).responses[String(status)]?.$ref
    const pointer = `${shared?.slice(1) ?? answer}/content/application~1json/schema`
    const made = validators.get(pointer) ?? ajv.compile({ $ref: `api#${pointer}` })
    validators.set(pointer, made)
    return made
  }

  function faultOf({ method, path, status, contentType, body }: Seen): string | null {
    const at = path.search(/\/api\//)
    const url = new URL(at < 0 ? path : path.slice(at), 'http://any')
    // What a node answers through its hub is described as its own answer.
    const [, relayed] = /^\/api\/nodes\/[^/]+\/at(\/.+)$/.exec(url.pathname) ?? []
    if (relayed !== undefined && status < 400)
      return faultOf({ method, path: `/api${relayed}${url.search}`, status, contentType, body })
    const route = routes.find(
      route => route.method === (method === 'HEAD' ? 'GET' : method) && matches(route.path, url.pathname)
    )
    if (route === undefined)
      return [404, 405, 204, 400, 403, 421, 503].includes(status) || at < 0
        ? null
        : `the document has no ${method} ${url.pathname}`
    const operation = operationOf(document, route)
    const response = operation.responses[String(status)]
    // An address outside the prefix of the server.
    if (response === undefined && status === 404) return null
    if (response === undefined)
      return `the document has no status ${status} (${(body as { code?: string } | undefined)?.code ?? ''})`
    if (status < 400 && process.env['ANY_PARAMETERS'] === undefined) {
      const known = new Set([
        'ticket',
        ...operation.parameters.filter(({ in: place }) => place === 'query').map(({ name }) => name)
      ])
      const unknown = [...url.searchParams.keys()].find(name => !known.has(name))
      if (unknown !== undefined) return `the document has no parameter "${unknown}"`
    }
    if (!contentType.startsWith('application/json') || method === 'HEAD' || status === 304) return null
    const validate = validator(route, status)
    if (validate(body)) return null
    const [error] = validate.errors ?? []
    return `${error?.instancePath || 'the body'} ${error?.message} ${JSON.stringify(error?.params)}`
  }

  return { document, routes, faultOf }
}

function matches(pattern: string, path: string): boolean {
  const isOpen = pattern.includes('/*')
  const expected = pattern.replace(/\/\*.*/, '').split('/')
  const given = path.split('/').slice(0, isOpen ? expected.length : undefined)
  return (
    expected.length === given.length &&
    expected.every((part, at) => (part.startsWith(':') ? given[at] !== '' : part === given[at]))
  )
}
