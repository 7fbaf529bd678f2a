import { oneOf } from '../base/fields.js'
import { hasControlCharacter } from '../base/text.js'
import { invalid } from '../base/errors.js'

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
