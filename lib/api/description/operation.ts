import type { Shape } from '../../base/fields.js'
import type { JsonSchema } from '../../base/json-schema.js'
import { dictionary, schema, type Schema } from './schema.js'

/** A parameter of the query or a header. */
export interface Parameter {
  in: 'query' | 'header'
  name: string
  description: string
  schema: JsonSchema
  required?: boolean
}

/** A response of an operation, apart from errors. `what` describes it. */
export type Answer =
  | { what: string; json: Schema<never>; headers?: Record<string, string> }
  | { what: string; media: string; example?: string; headers?: Record<string, string> }
  | { what: string; headers?: Record<string, string> }

/** A part of a form. */
export interface FormPart {
  name: string
  description: string
  schema: JsonSchema
  required?: boolean
}

/** The description of a route. Method, path and authorization come from the row in `api/routes.ts`. */
export interface Operation {
  /** A short sentence in the imperative, without a period. */
  summary: string
  description?: string
  parameters?: Parameter[]
  /** The fields of a JSON body: the same readers that the handler uses. */
  body?: Shape
  /** Descriptions of fields of `body`, by name. */
  fields?: Readonly<Record<string, string>>
  /** A JSON body whose fields are not known in advance. */
  jsonBody?: Schema<never>
  isBodyOptional?: boolean
  /** A body that is a text. */
  textBody?: { media: string; description: string; example: string }
  /** The parts of a multipart form. */
  form?: FormPart[]
  answers: Record<number, Answer>
  /** Error codes of this operation. The codes of authorization, bodies and writing are added to them. */
  errors?: string[]
}

/** Operations by method and path. */
export type Operations = Record<string, Operation>

/** Drops the value type of a schema, which the description does not need. */
export function any<T>(inner: Schema<T>): Schema<never> {
  return inner as unknown as Schema<never>
}

/** Returns the descriptions of a named record's fields, for a body that has some of the same fields. */
export function fieldsOf<T>({ json, uses }: Schema<T>): Record<string, string> {
  const { properties = {} } = uses.get(json.$ref?.split('/').at(-1) ?? '') ?? json
  return Object.fromEntries(
    Object.entries(properties).flatMap(([name, { description }]) =>
      description === undefined ? [] : [[name, description]]
    )
  )
}

/** A 200 response with JSON. */
export function answer<T>(what: string, json: Schema<T>, headers?: Record<string, string>): Record<number, Answer> {
  return { 200: { what, json: any(json), ...(headers && { headers }) } }
}

/** A 200 response with another media type. */
export function media(
  what: string,
  type: string,
  { example, headers }: { example?: string; headers?: Record<string, string> } = {}
): Record<number, Answer> {
  return { 200: { what, media: type, ...(example !== undefined && { example }), ...(headers && { headers }) } }
}

/** An optional query parameter. */
export function query(name: string, description: string, given: JsonSchema = { type: 'string' }): Parameter {
  return { in: 'query', name, description, schema: given }
}

/** Header of a stream of events that continues after an interruption. */
export const lastEventId: Parameter = {
  in: 'header',
  name: 'Last-Event-ID',
  description: 'The id of the last event that the client received',
  schema: { type: 'string' }
}

/** A required query parameter with a text. */
export function requiredQuery(name: string, description: string, schema?: JsonSchema): Parameter {
  return { ...query(name, description, schema), required: true }
}

/** The header `If-Match` of a change. `what` names the value that the client must send. */
export const ifMatch = (what: string): Parameter => ({
  in: 'header',
  name: 'If-Match',
  description: `${what}, in double quotes. If the current state differs, nothing changes and the status is 412`,
  schema: { type: 'string' }
})
/** The header `If-Match` with the `updatedAt` of a record. */
export const ifUpdatedAt = ifMatch('The `updatedAt` of the record')

/** The header with the id that a client gives its request. */
export const traceId: Parameter = {
  in: 'header',
  name: 'X-Svc-Trace-Id',
  description:
    'An id of the client, at most 200 visible ASCII characters. `GET /api/logs?traceId=` finds the deployment by it',
  schema: { type: 'string', maxLength: 200 }
}
/** The query parameter `limit` of a list. */
export const limitOf = (fallback: number, max: number): Parameter =>
  query('limit', `Maximum number of items. Default: ${fallback}. Values above ${max} are lowered to ${max}`, {
    type: 'integer',
    minimum: 1
  })
/** The query parameter `days` of statistics. */
export const daysOf = (fallback: number): Parameter =>
  query('days', `Number of days, including today. Default: ${fallback}. Values above 366 are lowered to 366`, {
    type: 'integer',
    minimum: 1
  })
/** A switch in a query or a form. */
export const switchSchema: JsonSchema = { type: 'string', enum: ['true', 'false', '1', '0'] }

/** An object with any fields. */
export const anything = dictionary(schema<unknown>({}, 'value'), {})
