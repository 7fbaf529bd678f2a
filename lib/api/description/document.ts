/* Builds the OpenAPI 3.1 document of the API from the table of routes and the operations in `operations/`. */
import { leastRole, type Auth } from '../../auth/bearer.js'
import { statusOf } from '../../http/core/reply.js'
import type { Shape } from '../../base/fields.js'
import { needsProof, type ApiRoute } from '../route.js'
import type { Scope } from '../scope.js'
import { otherField, otherKinds, type OtherRecord } from '../../base/refusal.js'
import { errorCodes } from './errors.js'
import type { Answer, FormPart, Operation, Parameter } from './operation.js'
import { operations } from './operations.js'
import type { JsonSchema } from '../../base/json-schema.js'

/** A JSON object of the document. The OpenAPI specification defines its form. */
export type Json = Record<string, unknown>

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
  token: [{ namedToken: [] }, { adminToken: [] }, { session: [] }, { deployToken: [] }],
  upload_check: [{ namedToken: [] }, { adminToken: [] }, { session: [] }, { deployToken: [] }],
  download: [{ namedToken: [] }, { adminToken: [] }, { session: [] }, { deployToken: [] }, { ticket: [] }],
  admin_download: [{ namedToken: [] }, { adminToken: [] }, { session: [] }, { ticket: [] }],
  upload: [{ namedToken: [] }, { deployToken: [] }, { session: [] }],
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
export function describeApi(routes: readonly ApiRoute[], version: string): Json {
  const used = new Map<string, JsonSchema>()
  const errors = createErrorAnswers()
  const paths: Record<string, Json> = {}
  for (const route of routes) {
    const path = route.path.replace(/[:*](\w+)/g, '{$1}')
    const operation = operations[`${route.method} ${route.path}`]
    if (operation === undefined) throw new Error(`No operation describes ${route.method} ${route.path}`)
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: describeRoute(route, operation, { used, errors }) }
  }
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
      schemas: { ...Object.fromEntries([...used].sort(([a], [b]) => (a < b ? -1 : 1))), Error: errorSchema }
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

/** Collected while the routes are described: the schemas and the error responses that the document contains once. */
interface Shared {
  used: Map<string, JsonSchema>
  errors: ErrorAnswers
}

function describeRoute(route: ApiRoute, operation: Operation, { used, errors }: Shared): Json {
  const { summary, description } = operation
  const body = describeBody(operation)
  return {
    operationId: operationId(route),
    tags: [route.path.split('/')[2]?.replace('.json', '') ?? 'api'],
    summary,
    ...(description !== undefined && { description }),
    security: security[route.auth],
    parameters: [...pathParameters(route.path), ...(operation.parameters ?? [])],
    ...(body !== null && { requestBody: body }),
    responses: {
      ...describeAnswers(operation.answers, used),
      ...(route.version && { 304: unchanged }),
      ...describeErrors(route, operation, errors)
    }
  }
}

/** RFC 9110 §15.4.5: the response to a client that sends the ETag of the current answer. */
const unchanged = { description: 'Not modified: the client already has the current answer' }

/** "GET /api/projects/:id/files" → "getProjectsIdFiles". */
function operationId({ method, path }: ApiRoute): string {
  const words = path
    .slice('/api/'.length)
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

function describeBody({ body, fields, jsonBody, textBody, form, isBodyOptional = false }: Operation): Json | null {
  if (textBody !== undefined) {
    const { media, description, example } = textBody
    return { required: true, description, content: { [media]: { schema: { type: 'string' }, example } } }
  }
  if (form !== undefined) return { required: true, content: { 'multipart/form-data': { schema: formSchema(form) } } }
  if (jsonBody !== undefined)
    return { required: true, content: { 'application/json': { schema: jsonBody.json, example: jsonBody.example } } }
  if (body === undefined) return null
  return {
    required: !isBodyOptional,
    content: { 'application/json': { schema: shapeSchema(body, fields), example: shapeExample(body) } }
  }
}

function formSchema(parts: readonly FormPart[]): JsonSchema {
  return {
    type: 'object',
    properties: Object.fromEntries(parts.map(({ name, description, schema }) => [name, { ...schema, description }])),
    required: parts.filter(({ required }) => required).map(({ name }) => name)
  }
}

/** Returns the schema of a body from the readers and descriptions of its fields. Unknown fields are ignored. */
export function shapeSchema(shape: Shape, descriptions: Readonly<Record<string, string>> = {}): JsonSchema {
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

function describeAnswers(answers: Operation['answers'], used: Map<string, JsonSchema>): Json {
  return Object.fromEntries(Object.entries(answers).map(([status, answer]) => [status, describeAnswer(answer, used)]))
}

function describeAnswer(answer: Answer, used: Map<string, JsonSchema>): Json {
  const headers = Object.entries(answer.headers ?? {}).map(([name, description]) => [
    name,
    { description, schema: { type: 'string' } }
  ])
  const shared = { description: answer.what, ...(headers.length > 0 && { headers: Object.fromEntries(headers) }) }
  if ('json' in answer) {
    for (const [name, json] of answer.json.uses) used.set(name, json)
    return { ...shared, content: { 'application/json': { schema: answer.json.json, example: answer.json.example } } }
  }
  if ('media' in answer) {
    const { media, example } = answer
    const isText = /^text|json/.test(media)
    return {
      ...shared,
      content: { [media]: { schema: isText ? { type: 'string' } : {}, ...(example !== undefined && { example }) } }
    }
  }
  return shared
}

/** Returns the error responses of a route by status. */
function describeErrors(route: ApiRoute, operation: Operation, errors: ErrorAnswers): Json {
  const codes = new Map<number, string[]>()
  for (const code of codesOf(route, operation)) {
    const status = statusOfCode(code)
    if (!(status in operation.answers)) codes.set(status, [...(codes.get(status) ?? []), code])
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
export function codesOf(
  route: Pick<ApiRoute, 'auth' | 'power' | 'isOnTarget' | 'method' | 'scope' | 'answeredBy'>,
  operation: Operation
): string[] {
  const takesBody = operation.body !== undefined || operation.jsonBody !== undefined || operation.form !== undefined
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
      ...(operation.parameters?.some(isChecked) ? ['invalid_field'] : []),
      ...(route.method === 'GET' && route.answeredBy !== 'leader' ? [] : leaderErrors),
      ...(route.method === 'GET' || route.auth === 'public' ? [] : ['wrong_csrf']),
      ...(operation.errors ?? [])
    ])
  ]
}

/** Whether a parameter of the query has values that are refused. */
function isChecked({ in: place, schema: { type, enum: choices } }: Parameter): boolean {
  return place === 'query' && (type !== 'string' || choices !== undefined)
}

/** Returns the HTTP status of an error code. */
export function statusOfCode(code: string): number {
  const entry = errorCodes[code]
  if (entry === undefined) throw new Error(`The table of error codes has no "${code}"`)
  return entry.kind === 'bug' ? 500 : statusOf[entry.kind]
}
