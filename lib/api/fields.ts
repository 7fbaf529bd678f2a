import { countOf } from '../base/count.js'
import { hasControlCharacter, unprintableIn } from '../base/one-line.js'
import { Refusal, invalid } from '../base/refusal.js'

/** Turns one unknown value into a typed one, or refuses with a sentence that names the field. */
export type Read<T> = (value: unknown, field: string) => T

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
  return (value, field) => (value === undefined ? undefined : read(value, field))
}

/** Absent or null is null. */
export function nullable<T>(read: Read<T>): Read<T | null> {
  return (value, field) => (value === undefined || value === null ? null : read(value, field))
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
  return (value, field) => {
    const given = read(value, field)
    const found = unprintableIn(given)
    if (found === null) return given
    const sentence = `"${field}" must be one line of visible characters: it contains ${found}`
    throw invalid(field, sentence)
  }
}

/** A string of any lines (a description, a script), without NUL, of `min` (0) to `max` (10,000) characters. */
export function multiline({ min = 0, max = maxTextLength, trim = false }: TextLimits = {}): Read<string> {
  return (value, field) => {
    if (value === undefined) throw invalid(field, `"${field}" is missing: a string is needed`)
    if (typeof value !== 'string') throw wrongType(field, 'a string', value)
    const given = trim ? value.trim() : value
    if (given.includes('\0')) throw invalid(field, `"${field}" cannot hold a NUL character`)
    if (given.length < min) throw tooShort(field, min)
    if (given.length > max) throw invalid(field, `"${field}" is too long: ${given.length} characters, at most ${max}`)
    return given
  }
}

/** A name for people: trimmed, not empty. */
export const name: Read<string> = line({ min: 1, max: maxNameLength, trim: true })

export const flag: Read<boolean> = (value, field) => {
  if (value === undefined) throw invalid(field, `"${field}" is missing: true or false is needed`)
  if (typeof value !== 'boolean') throw wrongType(field, 'true or false', value)
  return value
}

/** A whole number between `min` and `max`, both included. */
export function integer(min: number, max: number): Read<number> {
  return (value, field) => {
    if (typeof value !== 'number' || !Number.isSafeInteger(value)) throw wrongType(field, 'a whole number', value)
    if (value < min || value > max) throw invalid(field, `"${field}" is ${value}: it must be from ${min} to ${max}`)
    return value
  }
}

export function oneOf<T extends string>(values: readonly T[]): Read<T> {
  return (value, field) => {
    const known = values.find(one => one === value)
    if (known === undefined) throw wrongType(field, `one of ${values.join(', ')}`, value)
    return known
  }
}

/** A list of at least `min` and at most `max` items; an error names the item (`ids[3]`). */
export function list<T>(read: Read<T>, { min = 0, max }: { min?: number; max: number }): Read<T[]> {
  return (value, field) => {
    if (!Array.isArray(value)) throw wrongType(field, 'a list', value)
    if (value.length < min) throw invalid(field, `"${field}" needs at least ${countOf(min, 'item')}`)
    if (value.length > max) throw invalid(field, `"${field}" has ${value.length} items: at most ${max} are taken`)
    return value.map((item, index) => read(item, `${field}[${index}]`))
  }
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
