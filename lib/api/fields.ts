import { countOf } from '../base/count.js'
import { hasControlCharacter, unprintableIn } from '../base/one-line.js'
import { Refusal, invalid } from '../base/refusal.js'
import type { JsonSchema } from './description/schema.js'

/**
 * Turns one unknown value into a typed one, or refuses with a sentence that names the field. Its `schema` describes the
 * values that it takes, for the description of the API.
 */
export interface Read<T> {
  (value: unknown, field: string): T
  readonly schema: JsonSchema
  /** What the description gives as an example. */
  readonly example: unknown
  /** An absent field is allowed. */
  readonly isOptional?: boolean
}

/** Joins a function that reads a field with the schema of what it takes. */
export function reads<T>(schema: JsonSchema, example: unknown, read: (value: unknown, field: string) => T): Read<T> {
  return Object.assign(read, { schema, example })
}

/** The fields of a request, by name. A reader is called for an absent field too, with undefined. */
export type Shape = Record<string, Read<unknown>>
export type Fields<S extends Shape> = { [K in keyof S]: ReturnType<S[K]> }

/** Reads the named fields of a JSON object; others are ignored. Refuses: 400 naming the first field at fault. */
export function readFields<S extends Shape>(body: unknown, shape: S): Fields<S> {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    const sentence = `The body cannot be used: a JSON object is needed, not ${nameOf(body)}`
    throw new Refusal('invalid', 'invalid_body', sentence)
  }
  const given = body as Record<string, unknown>
  const entries = Object.entries(shape).map(([name, read]) => {
    return [name, read(Object.hasOwn(given, name) ? given[name] : undefined, name)] as const
  })
  return Object.fromEntries(entries) as Fields<S>
}

/** Absent stays absent: the field means "leave it as it is". `null` is a value and goes to the reader. */
export function optional<T>(read: Read<T>): Read<T | undefined> {
  const or = (value: unknown, field: string) => (value === undefined ? undefined : read(value, field))
  return Object.assign(or, { schema: read.schema, example: read.example, isOptional: true })
}

/** Absent or null is null. */
export function nullable<T>(read: Read<T>): Read<T | null> {
  const or = (value: unknown, field: string) => (value === undefined || value === null ? null : read(value, field))
  return Object.assign(or, { schema: { anyOf: [read.schema, { type: 'null' }] }, example: read.example, isOptional: true })
}

export interface TextLimits {
  /** Characters, counted after trimming where it trims. */
  min?: number
  max?: number
  trim?: boolean
}

export const maxNameLength = 200
export const maxTextLength = 10_000
export const maxScriptLength = 100_000
export const maxPathLength = 4096

/**
 * A string of one line (a name, a path, a message): no control characters, no bidirectional marks, no halves of
 * surrogate pairs. What is printed in a log or a table has to be one, or it forges lines there.
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

/** A string of any lines (a description, a script), without NUL, of `min` (0) to `max` (10,000) characters. */
export function multiline({ min = 0, max = maxTextLength, trim = false }: TextLimits = {}): Read<string> {
  const schema: JsonSchema = { type: 'string', ...(min > 0 && { minLength: min }), maxLength: max }
  return reads(schema, 'text', (value, field) => {
    if (value === undefined) throw invalid(field, `"${field}" is missing: a string is needed`)
    if (typeof value !== 'string') throw wrongType(field, 'a string', value)
    const given = trim ? value.trim() : value
    if (given.includes('\0')) throw invalid(field, `"${field}" cannot hold a NUL character`)
    if (given.length < min) throw tooShort(field, min)
    if (given.length > max) throw invalid(field, `"${field}" is too long: ${given.length} characters, at most ${max}`)
    return given
  })
}

/** A name for people: trimmed, not empty. */
export const name: Read<string> = line({ min: 1, max: maxNameLength, trim: true })

export const flag: Read<boolean> = reads({ type: 'boolean' }, true, (value, field) => {
  if (value === undefined) throw invalid(field, `"${field}" is missing: true or false is needed`)
  if (typeof value !== 'boolean') throw wrongType(field, 'true or false', value)
  return value
})

/** A whole number between `min` and `max`, both included. */
export function integer(min: number, max: number): Read<number> {
  return reads({ type: 'integer', minimum: min, maximum: max }, Math.max(min, 1), (value, field) => {
    if (typeof value !== 'number' || !Number.isSafeInteger(value)) throw wrongType(field, 'a whole number', value)
    if (value < min || value > max) throw invalid(field, `"${field}" is ${value}: it must be from ${min} to ${max}`)
    return value
  })
}

export function oneOf<T extends string>(values: readonly T[]): Read<T> {
  return reads({ type: 'string', enum: values }, values[0], (value, field) => {
    const known = values.find(one => one === value)
    if (known === undefined) throw wrongType(field, `one of ${values.join(', ')}`, value)
    return known
  })
}

/** A list of at least `min` and at most `max` items; an error names the item (`ids[3]`). */
export function list<T>(read: Read<T>, { min = 0, max }: { min?: number; max: number }): Read<T[]> {
  const schema: JsonSchema = { type: 'array', items: read.schema, ...(min > 0 && { minItems: min }), maxItems: max }
  return reads(schema, [read.example], (value, field) => {
    if (!Array.isArray(value)) throw wrongType(field, 'a list', value)
    if (value.length < min) throw invalid(field, `"${field}" needs at least ${countOf(min, 'item')}`)
    if (value.length > max) throw invalid(field, `"${field}" has ${value.length} items: at most ${max} are taken`)
    return value.map((item, index) => read(item, `${field}[${index}]`))
  })
}

/** A query parameter that is a whole number from 1; above `max` it is `max`, absent it is `fallback`. */
export function queryLimit(
  query: URLSearchParams,
  field: string,
  { fallback, max }: { fallback: number; max: number }
): number {
  const given = query.get(field)
  if (given === null || given === '') return fallback
  if (!/^\d{1,9}$/.test(given) || Number(given) < 1) {
    throw invalid(field, `"${field}" is "${given}": a whole number from 1 to ${max} is needed`)
  }
  return Math.min(Number(given), max)
}

/** A byte offset; absent or empty: undefined. */
export function queryOffset(query: URLSearchParams, field: string): number | undefined {
  const given = query.get(field)
  if (given === null || given === '') return undefined
  if (/^\d{1,15}$/.test(given)) return Number(given)
  throw invalid(field, `"${field}" is "${given}": a byte offset is needed, a whole number from 0`)
}

/** A query parameter that names one of `values`; absent or empty: undefined. */
export function queryChoice<T extends string>(
  query: URLSearchParams,
  field: string,
  values: readonly T[]
): T | undefined {
  const given = query.get(field)
  return given === null || given === '' ? undefined : oneOf(values)(given, field)
}

/** A query parameter's text; absent or empty: undefined. */
export function queryText(query: URLSearchParams, field: string): string | undefined {
  return query.get(field) || undefined
}

/** A query parameter that is a path: without control characters; absent or empty: undefined. */
export function queryPath(query: URLSearchParams, field: string): string | undefined {
  const given = queryText(query, field)
  if (given !== undefined && hasControlCharacter(given)) throw invalid(field, `"${field}" cannot hold control characters`)
  return given
}

/** A switch in a query or a form: `true`, `1`, `false`, `0`; absent or empty: undefined. */
export function switchText(given: string | null | undefined, field: string): boolean | undefined {
  if (given === null || given === undefined || given === '') return undefined
  if (given === 'true' || given === '1') return true
  if (given === 'false' || given === '0') return false
  throw invalid(field, `"${field}" is "${given}": true, false, 1 or 0 is needed`)
}

function tooShort(field: string, min: number): Refusal {
  if (min === 1) return invalid(field, `"${field}" is empty`)
  return invalid(field, `"${field}" is too short: at least ${min} characters are needed`)
}

function wrongType(field: string, wanted: string, value: unknown): Refusal {
  if (value === undefined) return invalid(field, `"${field}" is missing: ${wanted} is needed`)
  const given = typeof value === 'string' ? `"${value.slice(0, 80)}"` : nameOf(value)
  return invalid(field, `"${field}" is ${given}: ${wanted} is needed`)
}

function nameOf(value: unknown): string {
  if (value === null) return 'null'
  if (value === undefined) return 'nothing'
  if (Array.isArray(value)) return 'a list'
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`
}
