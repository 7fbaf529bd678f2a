/*
 * Builds what the server hands out and the compiler does not write; `make build` calls it. The archives of install.sh, and
 * the OpenAPI 3.1 document of the API from the table of routes, the map of routes (lib/api/map) and the records that it
 * names: their types are the schemas, their comments the descriptions.
 */
import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { type Auth, leastRole } from '../../lib/access/bearer.js'
import type { JsonSchema, Shape } from '../../lib/base/fields.js'
import { otherField, otherKinds, type OtherRecord } from '../../lib/base/errors.js'
import { errorCodes } from '../../lib/api/errors.js'
import { type ApiRoute, needsProof, type Scope } from '../../lib/api/route.js'
import { apiRoutes } from '../../lib/api/routes.js'
import { readVersion } from '../../lib/base/config/version.js'
import { statusOfCode } from '../support/described.js'
import { makeDownloads } from './bundle.js'
import { readRouteMap, type MappedRoute, type Parameter } from './route-map.js'

/** A JSON object of the document. The OpenAPI specification defines its form. */
type Json = Record<string, unknown>

/** The security schemes that each kind of authorization accepts. `{}` means no authentication. */
const security: Record<Auth, Json[]> = {
  public: [{}],
  viewer: [{ namedToken: [] }, { adminToken: [] }, { session: [] }],
  viewer_download: [{ namedToken: [] }, { adminToken: [] }, { session: [] }, { ticket: [] }],
  operator: [{ namedToken: [] }, { adminToken: [] }, { session: [] }],
  operator_download: [{ namedToken: [] }, { adminToken: [] }, { session: [] }, { ticket: [] }],
  manage: [{ namedToken: [] }, { adminToken: [] }, { session: [] }, { deployToken: [] }],
  fetch: [{ namedToken: [] }, { adminToken: [] }, { session: [] }, { deployToken: [] }],
  admin: [{ namedToken: [] }, { adminToken: [] }, { session: [] }],
  operate: [{ namedToken: [] }, { adminToken: [] }, { session: [] }],
  read: [{ namedToken: [] }, { adminToken: [] }, { session: [] }, { deployToken: [] }],
  own: [{ namedToken: [] }, { adminToken: [] }, { session: [] }, { deployToken: [] }],
  approve: [{ namedToken: [] }, { adminToken: [] }, { session: [] }],
  promote: [{ namedToken: [] }, { adminToken: [] }, { session: [] }, { deployToken: [] }],
  token: [{ namedToken: [] }, { adminToken: [] }, { session: [] }, { deployToken: [] }],
  upload_check: [{ namedToken: [] }, { adminToken: [] }, { session: [] }, { deployToken: [] }],
  download: [{ namedToken: [] }, { adminToken: [] }, { session: [] }, { deployToken: [] }, { ticket: [] }],
  admin_download: [{ namedToken: [] }, { adminToken: [] }, { session: [] }, { ticket: [] }],
  upload: [{ namedToken: [] }, { deployToken: [] }, { session: [] }],
  piece: [{ namedToken: [] }, { deployToken: [] }, { session: [] }],
  terminal: [{ namedToken: [] }, { adminToken: [] }, { session: [] }, { ticket: [] }],
  metrics: [{ namedToken: [] }, { adminToken: [] }, { metricsToken: [] }],
  local: [{ localSocket: [] }],
  agent: [{ nodeSignature: [] }]
}

const securitySchemes: Json = {
  namedToken: {
    type: 'http',
    scheme: 'bearer',
    description: 'A named token, created with POST /api/tokens, whose role and projects permit the request.'
  },
  adminToken: { type: 'http', scheme: 'bearer', description: 'The admin token.' },
  deployToken: {
    type: 'http',
    scheme: 'bearer',
    description:
      'The deploy token of a project, or the global deploy token. The token of a project gives access to that project only.'
  },
  session: {
    type: 'apiKey',
    in: 'cookie',
    name: 'svc_session_…',
    description:
      'A browser session, created with POST /api/auth/login. The name of the cookie ends with 8 digits that belong to the server. Requests that change something also need the header X-Svc-Csrf.'
  },
  metricsToken: { type: 'http', scheme: 'bearer', description: 'The value of the setting metrics_token.' },
  ticket: {
    type: 'apiKey',
    in: 'query',
    name: 'ticket',
    description: 'A single-use ticket, created with POST /api/tickets. It expires after 30 seconds.'
  },
  nodeSignature: {
    type: 'apiKey',
    in: 'header',
    name: 'Authorization',
    description:
      'A request that an agent has signed with the key of its node: SvcNode <node> <session> <number> <signature>. No token is accepted.'
  },
  localSocket: {
    type: 'apiKey',
    in: 'header',
    name: 'Host',
    description: 'No token. The request must come through the Unix socket svc.sock in the data directory.'
  }
}

const anyErrors = [
  'invalid_request',
  'invalid_path',
  'misdirected_host',
  'stopping',
  'no_admin_token',
  'out_of_descriptors',
  'server_full',
  'too_much_at_once',
  'internal_error'
]
const tokenErrors = ['unauthorized', 'forbidden', 'foreign_origin', 'too_many_failures', 'locked_out']
const bodyErrors = ['invalid_body', 'invalid_field', 'too_large', 'unsupported_type', 'body_timeout', 'aborted']
const writeErrors = [
  'disk_full',
  'write_failed',
  'database_unavailable',
  'shutting_down',
  'leader_lost',
  'write_unknown'
]
/** Errors of a hub of a cluster, if the leader has to answer. */
const leaderErrors = ['leader_answer', 'no_leader', 'not_leader', 'hub_not_encrypted', 'hub_out_of_step', 'hub_refused']

/** Returns the OpenAPI document of `routes`. `version` is the version of the program. */
async function describeApi(routes: readonly ApiRoute[], version: string): Promise<Json> {
  const map = await readRouteMap()
  const errors = createErrorAnswers()
  const paths: Record<string, Json> = {}
  for (const route of routes) {
    const key = `${route.method} ${route.path}`
    const mapped = map.routes.get(key)
    if (mapped === undefined) throw new Error(`lib/api/map has no ${key}`)
    const path = route.path.replace(/[:*](\w+)/g, '{$1}')
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: describeRoute(route, mapped, errors) }
  }
  const known = new Set(routes.map(({ method, path }) => `${method} ${path}`))
  const left = [...map.routes.keys()].filter(key => !known.has(key))
  if (left.length > 0) throw new Error(`lib/api/map describes what is no route: ${left.join(', ')}`)
  return {
    openapi: '3.1.0',
    info: {
      title: 'svc',
      version,
      description:
        'The API of svc, a self-hosted deployment service. Every error has a stable code. Error messages may change.',
      license: { name: 'MIT', identifier: 'MIT' }
    },
    // Relative to the address of the document, so that it is correct under any prefix (RFC 3986 §5.2).
    servers: [{ url: '..' }],
    paths,
    components: {
      securitySchemes,
      responses: errors.components(),
      schemas: { ...Object.fromEntries([...map.schemas].sort(([a], [b]) => (a < b ? -1 : 1))), Error: errorSchema }
    }
  }
}

/** The body of every error response. */
const errorSchema: JsonSchema = {
  type: 'object',
  properties: {
    success: { const: false },
    error: { type: 'string', description: 'The error message, for people.' },
    message: { type: 'string', description: 'The same message as `error`.' },
    code: {
      type: 'string',
      description: Object.entries(errorCodes)
        .map(([code, { means }]) => `\`${code}\`: ${means}`)
        .join('\n')
    },
    field: { type: 'string', description: 'The field, parameter or header that caused the error.' },
    ...Object.fromEntries(otherKinds.map(kind => [otherField(kind), describeOther(kind)]))
  },
  required: ['success', 'error', 'message', 'code'],
  additionalProperties: false
}

function describeOther(kind: OtherRecord['kind']): JsonSchema {
  return {
    type: 'object',
    description: `The ${kind} that is in the way of the request.`,
    properties: { id: { type: 'string' }, name: { type: 'string' } },
    required: ['id']
  }
}

function describeRoute(route: ApiRoute, mapped: MappedRoute, errors: ErrorAnswers): Json {
  const { summary, description, parameters, answers } = mapped
  const body = describeBody(mapped)
  return {
    operationId: operationId(route),
    tags: [route.path.split('/')[2]?.replace('.json', '') ?? 'api'],
    summary,
    ...(description !== undefined && { description }),
    security: security[route.auth],
    parameters: [...pathParameters(route.path), ...parameters],
    ...(body !== null && { requestBody: body }),
    responses: {
      ...Object.fromEntries(Object.entries(answers).map(([status, answer]) => [status, describeAnswer(answer)])),
      ...(route.version && { 304: unchanged }),
      ...describeErrors(route, mapped, errors)
    }
  }
}

/** RFC 9110 §15.4.5: the response to a client that sends the ETag of the current answer. */
const unchanged = { description: 'Not modified: the client already has the current answer' }

/** "GET /api/projects/:id/files" → "getProjectsIdFiles". */
function operationId({ method, path }: ApiRoute): string {
  const words = path
    .replace(/^\/(api\/)?/, '')
    .split(/[^a-z]+/i)
    .filter(Boolean)
  return method.toLowerCase() + words.map(word => (word[0] as string).toUpperCase() + word.slice(1)).join('')
}

function pathParameters(path: string): Json[] {
  return [...path.matchAll(/[:*](\w+)/g)].map(([, name]) => ({
    in: 'path',
    name,
    required: true,
    schema: { type: 'string' }
  }))
}

function describeBody({ body, jsonBody, text, form, isBodyOptional }: MappedRoute): Json | null {
  if (text !== undefined) {
    const { media, description, example } = text
    return { required: true, description, content: { [media]: { schema: { type: 'string' }, example } } }
  }
  if (form !== undefined) return { required: true, content: { 'multipart/form-data': { schema: formSchema(form) } } }
  if (jsonBody !== undefined)
    return { required: true, content: { 'application/json': { schema: jsonBody.json, example: jsonBody.example } } }
  if (body === undefined) return null
  const { shape, descriptions } = body
  return {
    required: !isBodyOptional,
    content: { 'application/json': { schema: shapeSchema(shape, descriptions), example: shapeExample(shape) } }
  }
}

function formSchema(parts: readonly Parameter[]): JsonSchema {
  return {
    type: 'object',
    properties: Object.fromEntries(parts.map(({ name, description, schema }) => [name, { ...schema, description }])),
    required: parts.filter(({ required }) => required).map(({ name }) => name)
  }
}

/** Returns the schema of a body from the readers and descriptions of its fields. Unknown fields are ignored. */
function shapeSchema(shape: Shape, descriptions: Readonly<Record<string, string>> = {}): JsonSchema {
  const fields = Object.entries(shape)
  const required = fields.filter(([, read]) => !read.isOptional).map(([name]) => name)
  return {
    type: 'object',
    properties: Object.fromEntries(
      fields.map(([name, { schema }]) => {
        const description = descriptions[name]
        return [name, description === undefined ? schema : { ...schema, description }]
      })
    ),
    ...(required.length > 0 && { required })
  }
}

function shapeExample(shape: Shape): Json {
  const fields = Object.entries(shape)
  const shown = fields.filter(([, read]) => !read.isOptional)
  return Object.fromEntries((shown.length > 0 ? shown : fields.slice(0, 1)).map(([name, read]) => [name, read.example]))
}

function describeAnswer({ what, headers, json, media, example }: MappedRoute['answers'][string]): Json {
  const named = Object.entries(headers).map(([name, description]) => [
    name,
    { description, schema: { type: 'string' } }
  ])
  const shared = { description: what, ...(named.length > 0 && { headers: Object.fromEntries(named) }) }
  const shown = example !== undefined && { example }
  if (json !== undefined) return { ...shared, content: { 'application/json': { schema: json, ...shown } } }
  if (media === undefined) return shared
  const schema = /^text|json/.test(media) ? { type: 'string' } : {}
  return { ...shared, content: { [media]: { schema, ...shown } } }
}

/** Returns the error responses of a route by status. */
function describeErrors(route: ApiRoute, mapped: MappedRoute, errors: ErrorAnswers): Json {
  const codes = new Map<number, string[]>()
  for (const code of codesOf(route, mapped)) {
    const status = statusOfCode(code)
    if (!(status in mapped.answers)) codes.set(status, [...(codes.get(status) ?? []), code])
  }
  return Object.fromEntries([...codes].map(([status, list]) => [status, errors.refer(status, list.sort())]))
}

/** The error responses of the document. Responses with the same status and codes share one component. */
interface ErrorAnswers {
  refer(status: number, codes: string[]): Json
  components(): Json
}

function createErrorAnswers(): ErrorAnswers {
  const names = new Map<string, string>()
  const made: Json = {}
  return {
    refer(status, codes) {
      const key = `${status} ${codes.join()}`
      let name = names.get(key)
      if (name === undefined) {
        name = `Error${status}-${[...names.keys()].filter(other => other.startsWith(`${status} `)).length + 1}`
        names.set(key, name)
        made[name] = errorAnswer(codes)
      }
      return { $ref: `#/components/responses/${name}` }
    },
    components: () => made
  }
}

function errorAnswer(codes: string[]): Json {
  const schema = { allOf: [{ $ref: '#/components/schemas/Error' }, { properties: { code: { enum: codes } } }] }
  const sentence = errorCodes[codes[0] as string]?.means ?? ''
  const example = { success: false, error: sentence, message: sentence, code: codes[0] }
  return {
    description: codes.map(code => `\`${code}\``).join(', '),
    content: { 'application/json': { schema, example } }
  }
}

/** What a named token is refused with. */
const namedTokenErrors = [
  'role_too_low',
  'token_expired',
  'token_revoked',
  'second_factor_required',
  'address_not_allowed'
]
/** What a request of a node is refused with. */
const agentErrors = ['node_unknown', 'session_unknown', 'wrong_signature', 'request_repeated']
/** What a caller that is limited to projects is refused with. */
const scopeErrors: Readonly<Record<Scope, readonly string[]>> = {
  none: [],
  server: ['scope_too_narrow'],
  filtered: [],
  given: ['not_found', 'other_project'],
  project: ['not_found', 'other_project'],
  deployment: ['not_found', 'other_project'],
  logSource: ['not_found'],
  rollout: ['not_found', 'other_project']
}

/** Returns every error code of a route: its own, and the codes of its authorization, its body and writing. */
function codesOf(
  route: Pick<ApiRoute, 'auth' | 'power' | 'isOnTarget' | 'method' | 'scope' | 'answeredBy'>,
  mapped: MappedRoute
): string[] {
  const takesBody = mapped.body !== undefined || mapped.jsonBody !== undefined || mapped.form !== undefined
  return [
    ...new Set([
      ...anyErrors,
      ...(route.auth === 'public' ? [] : tokenErrors),
      ...(leastRole(route.auth) === null ? [] : namedTokenErrors),
      ...(route.auth === 'agent' ? agentErrors : []),
      ...scopeErrors[route.scope],
      ...(needsProof(route.power) || (route.power === 'depends' && route.method !== 'GET') ? ['proof_required'] : []),
      ...(route.isOnTarget ? ['project_is_placed'] : []),
      ...(takesBody ? bodyErrors : []),
      // `dryRun` in the query of a change that has no trial is refused, not ignored.
      ...(route.method === 'GET' ? [] : [...writeErrors, 'invalid_field']),
      ...(mapped.parameters.some(isChecked) ? ['invalid_field'] : []),
      ...(route.method === 'GET' && route.answeredBy !== 'leader' ? [] : leaderErrors),
      ...(route.method === 'GET' || route.auth === 'public' ? [] : ['wrong_csrf']),
      ...mapped.errors
    ])
  ]
}

/** Whether a parameter of the query has values that are refused. */
function isChecked({ in: place, schema: { type, enum: choices } }: Parameter): boolean {
  return place === 'query' && (type !== 'string' || choices !== undefined)
}

/** A stand-in for services whose handlers are created but never called. */
const nothing: any = new Proxy(() => nothing, { get: () => nothing })

const document = await describeApi(apiRoutes(nothing), readVersion())
writeFileSync(fileURLToPath(new URL('../../lib/api/openapi.json', import.meta.url)), `${JSON.stringify(document)}\n`)
// The package for nodes contains it.
await makeDownloads()
