import type { Shape } from '../fields.js'
import { dictionary, schema, type JsonSchema, type Schema } from './schema.js'

/** A parameter of the query or a header. */
export interface Parameter {
  in: 'query' | 'header'
  name: string
  description: string
  schema: JsonSchema
  required?: boolean
}

/** What an operation answers with a status of its own. */
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

/** What the description says of a route, beside what its row says: method, path and authorization. */
export interface Operation {
  /** A short sentence in the imperative, without a period. */
  summary: string
  description?: string
  parameters?: Parameter[]
  /** The fields of a JSON body, as the handler reads them. */
  body?: Shape
  /** A JSON body whose fields are not known in advance. */
  jsonBody?: Schema<never>
  isBodyOptional?: boolean
  /** The parts of a multipart form. */
  form?: FormPart[]
  answers: Record<number, Answer>
  /** Codes of the errors that are its own; those of authorization and bodies are added. */
  errors?: string[]
}

export type Operations = Record<string, Operation>

/** Any schema: the description does not use the type of its values. */
export function any<T>(inner: Schema<T>): Schema<never> {
  return inner as unknown as Schema<never>
}

/** 200 with JSON. */
export function answer<T>(what: string, json: Schema<T>, headers?: Record<string, string>): Record<number, Answer> {
  return { 200: { what, json: any(json), ...(headers && { headers }) } }
}

/** 200 with another media type. */
export function media(what: string, type: string, example?: string, headers?: Record<string, string>): Record<number, Answer> {
  return { 200: { what, media: type, ...(example !== undefined && { example }), ...(headers && { headers }) } }
}

export function query(name: string, description: string, given: JsonSchema = { type: 'string' }, required = false): Parameter {
  return { in: 'query', name, description, schema: given, ...(required && { required }) }
}

/** Of a change: `what` names the state that it is made for. */
export const ifMatch = (what: string): Parameter => ({
  in: 'header', name: 'If-Match', description: `${what}, in quotes. If the record is in another state, nothing is changed: 412`, schema: { type: 'string' }
})
export const ifUpdatedAt = ifMatch('The `updatedAt` of the record')

export const limitOf = (fallback: number, max: number): Parameter =>
  query('limit', `Maximum number of items; larger values become ${max}. Default: ${fallback}`, { type: 'integer', minimum: 1 })
export const daysOf = (fallback: number): Parameter =>
  query('days', `Number of days, today included; larger values become 366. Default: ${fallback}`, { type: 'integer', minimum: 1 })
export const switchSchema: JsonSchema = { type: 'string', enum: ['true', 'false', '1', '0'] }

/** An object of which nothing is promised. */
export const anything = dictionary(schema<unknown>({}, 'value'), {})
