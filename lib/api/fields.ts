import { countOf } from '../base/count.js'
import { hasControlCharacter, unprintableIn } from '../base/one-line.js'
import { Refusal, invalid } from '../base/refusal.js'
import type { JsonSchema } from './description/schema.js'

/**
 * Reads a field: returns the typed value, or refuses with 400 `invalid_field` and a message that names the field.
 * `schema` describes the accepted values in the API description.
 */
export interface Read<T> {
  (value: unknown, field: string): T
  readonly schema: JsonSchema
  /** The example in the API description. */
  readonly example: unknown
  /** Whether the field may be absent. */
  readonly isOptional?: boolean
}

/** Creates a reader from a function and the schema of the values that it accepts. */
export function reads<T>(schema: JsonSchema, example: unknown, read: (value: unknown, field: string) => T): Read<T> {
  return Object.assign(read, { schema, example })
}

/** The readers of a body's fields, by name. For an absent field, the reader is called with undefined. */
export type Shape = Record<string, Read<unknown>>
/** The values that the readers of a shape return. */
export type Fields<S extends Shape> = { [K in keyof S]: ReturnType<S[K]> }

/**
 * Reads the fields of a JSON object and ignores all others. Refuses: 400 `invalid_body` if `body` is not an object, 400
 * `invalid_field` for the first invalid field.
 */
export function readFields<S extends Shape>(body: unknown, shape: S): Fields<S> {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    const sentence = `The body is ${nameOf(body)}: expected a JSON object`
    throw new Refusal('invalid', 'invalid_body', sentence)
  }
  const given = body as Record<string, unknown>
  const entries = Object.entries(shape).map(([name, read]) => {
    return [name, read(Object.hasOwn(given, name) ? given[name] : undefined, name)] as const
  })
  return Object.fromEntries(entries) as Fields<S>
}

/**
 * Makes a field optional: an absent field stays undefined, which means "do not change it". `null` goes to the reader.
 */
export function optional<T>(read: Read<T>): Read<T | undefined> {
  const or = (value: unknown, field: string) => (value === undefined ? undefined : read(value, field))
  return Object.assign(or, { schema: read.schema, example: read.example, isOptional: true })
}

/** Makes a field nullable: an absent field and null both become null. */
export function nullable<T>(read: Read<T>): Read<T | null> {
  const or = (value: unknown, field: string) => (value === undefined || value === null ? null : read(value, field))
  return Object.assign(or, {
    schema: { anyOf: [read.schema, { type: 'null' }] },
    example: read.example,
    isOptional: true
  })
}

/** Limits of a text. */
export interface TextLimits {
  /** Minimum number of characters, counted after trimming. Default: 0. */
  min?: number
  /** Maximum number of characters, counted after trimming. Default: 10,000. */
  max?: number
  /** Whether to remove white space at both ends. */
  trim?: boolean
}

/** Maximum number of characters of a name. */
export const maxNameLength = 200
/** Maximum number of characters of a text, unless its reader sets another limit. */
export const maxTextLength = 10_000
/** Maximum number of characters of a script. */
export const maxScriptLength = 100_000
/** Maximum number of characters of a path. */
export const maxPathLength = 4096

/**
 * Reads a string of one line, such as a name, a path or a message: without control characters, bidirectional marks and
 * unpaired surrogates. Use it for everything that is printed in a log or a table, where other text could forge lines.
 */
export function line(limits: TextLimits = {}): Read<string> {
  const read = multiline(limits)
  return reads(read.schema, 'one line', (value, field) => {
    const given = read(value, field)
    const found = unprintableIn(given)
    if (found === null) return given
    const sentence = `"${field}" must be one line of visible characters: it contains ${found}`
    throw invalid(field, sentence)
  })
}

/** Reads a string of any number of lines, such as a description or a script. It must not contain NUL. */
export function multiline({ min = 0, max = maxTextLength, trim = false }: TextLimits = {}): Read<string> {
  const schema: JsonSchema = { type: 'string', ...(min > 0 && { minLength: min }), maxLength: max }
  return reads(schema, 'text', (value, field) => {
    if (value === undefined) throw invalid(field, `"${field}" is missing: expected a string`)
    if (typeof value !== 'string') throw wrongType(field, 'expected a string', value)
    const given = trim ? value.trim() : value
    if (given.includes('\0')) throw invalid(field, `"${field}" must not contain a NUL character`)
    if (given.length < min) throw tooShort(field, given.length, min)
    if (given.length > max) throw invalid(field, `"${field}" is too long: ${given.length} characters, at most ${max}`)
    return given
  })
}

/** Reads a display name: trimmed, not empty, at most 200 characters. */
export const name: Read<string> = line({ min: 1, max: maxNameLength, trim: true })

/** Reads a boolean. */
export const flag: Read<boolean> = reads({ type: 'boolean' }, true, (value, field) => {
  if (value === undefined) throw invalid(field, `"${field}" is missing: expected true or false`)
  if (typeof value !== 'boolean') throw wrongType(field, 'expected true or false', value)
  return value
})

/** Reads a whole number from `min` to `max`, both inclusive. */
export function integer(min: number, max: number): Read<number> {
  return reads({ type: 'integer', minimum: min, maximum: max }, Math.max(min, 1), (value, field) => {
    if (typeof value !== 'number' || !Number.isSafeInteger(value))
      throw wrongType(field, 'expected a whole number', value)
    if (value < min || value > max) throw invalid(field, `"${field}" is ${value}: must be between ${min} and ${max}`)
    return value
  })
}

/** Reads one of `values`. */
export function oneOf<T extends string>(values: readonly T[]): Read<T> {
  return reads({ type: 'string', enum: values }, values[0], (value, field) => {
    const known = values.find(one => one === value)
    if (known === undefined) throw wrongType(field, `expected one of ${values.join(', ')}`, value)
    return known
  })
}

/** Reads a list of `min` to `max` items. An error names the item, for example `ids[3]`. */
export function list<T>(read: Read<T>, { min = 0, max }: { min?: number; max: number }): Read<T[]> {
  const schema: JsonSchema = { type: 'array', items: read.schema, ...(min > 0 && { minItems: min }), maxItems: max }
  return reads(schema, [read.example], (value, field) => {
    if (!Array.isArray(value)) throw wrongType(field, 'expected a list', value)
    if (value.length < min) throw invalid(field, `"${field}" must have at least ${countOf(min, 'item')}`)
    if (value.length > max) throw invalid(field, `"${field}" has ${value.length} items: at most ${max} are allowed`)
    return value.map((item, index) => read(item, `${field}[${index}]`))
  })
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

function tooShort(field: string, length: number, min: number): Refusal {
  if (min === 1) return invalid(field, `"${field}" is empty`)
  return invalid(field, `"${field}" is too short: ${length} characters, at least ${min}`)
}

function wrongType(field: string, wanted: string, value: unknown): Refusal {
  if (value === undefined) return invalid(field, `"${field}" is missing: ${wanted}`)
  const given = typeof value === 'string' ? `"${value.slice(0, 80)}"` : nameOf(value)
  return invalid(field, `"${field}" is ${given}: ${wanted}`)
}

function nameOf(value: unknown): string {
  if (value === null) return 'null'
  if (value === undefined) return 'empty'
  if (Array.isArray(value)) return 'a list'
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`
}
