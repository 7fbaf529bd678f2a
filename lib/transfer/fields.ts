import { oneLine, unprintableIn } from '../base/one-line.js'
import { invalid } from '../base/refusal.js'

/** Reads one record of a package's file, field by field. A refusal names the file, the record's index and the field. */
export interface FieldReader {
  /** Returns whether the record has the field. */
  has(field: string): boolean
  /** Reads a text. Refuses a missing field without a fallback. */
  text(field: string, options?: TextOptions): string
  /** Reads a text; null if the field is missing or null. */
  nullableText(field: string, options?: TextOptions): string | null
  /** Reads a boolean. */
  flag(field: string, fallback: boolean): boolean
  /** Reads a boolean; null if the field is missing or null. */
  nullableFlag(field: string): boolean | null
  /** Reads a whole number. */
  integer(field: string, fallback: number): number
  /** Reads a whole number; null if the field is missing or null. `min` and `max` are included in the range. */
  nullableInteger(field: string, range?: { min: number; max: number }): number | null
  /** Reads one of these values. */
  choice<T extends string>(field: string, values: readonly T[], fallback?: T): T
  /** Reads an instant (ISO 8601) and returns it as it is written. */
  time(field: string, fallback?: string): string
  /** Reads an instant; null if the field is missing or null. */
  nullableTime(field: string): string | null
  /** Reads a list of texts; empty if the field is missing. */
  texts(field: string, options?: TextOptions): string[]
  /** Reads a list of objects, each with `read`; empty if the field is missing. */
  list<T>(field: string, read: (item: FieldReader) => T): T[]
  /** Returns the unchecked value of a field. */
  value(field: string): unknown
  /** Returns the refusal of a field for the given reason. */
  refusal(field: string, reason: string): Error
}

/** The rules for a text. */
export interface TextOptions {
  fallback?: string
  /** The pattern that the text must match. */
  pattern?: RegExp
  /** A description of the required text for refusals. */
  wanted?: string
  /**
   * Requires text of one line: `escape` escapes other characters, for names; `refuse` refuses them, for values that are
   * used as they are.
   */
  oneLine?: 'escape' | 'refuse'
  /** Returns why the text is refused, as the end of a sentence; null if it is valid. */
  faultOf?: (text: string) => string | null
}

/**
 * The form of an id. Ids become part of file names and addresses, so they are short words, also in packages of other
 * programs.
 */
export const idPattern = /^[A-Za-z0-9][\w-]{0,99}$/
/** The description of `idPattern` in refusals. */
export const idWanted = 'an id of letters, digits, "_" and "-"'

const maxTextLength = 1024 * 1024
const maxItems = 10_000

/**
 * Returns a reader of a record. `place` names the record in refusals: `projects.json[3]`. Refuses anything but an
 * object.
 */
export function readerOf(record: unknown, place: string): FieldReader {
  if (typeof record !== 'object' || record === null || Array.isArray(record)) throw wrong(place, 'an object is needed')
  const given = record as Record<string, unknown>
  const valueOf = (field: string): unknown => (Object.hasOwn(given, field) ? given[field] : undefined)
  const at = (field: string): string => `${place}.${field}`

  function checkedText(
    field: string,
    value: unknown,
    { pattern, wanted = 'a string', oneLine: line, faultOf }: TextOptions
  ): string {
    if (typeof value !== 'string') throw wrong(at(field), `${wanted} is needed`)
    if (value.includes('\0') || value.length > maxTextLength)
      throw wrong(at(field), 'it is too long or contains a NUL character')
    if (pattern !== undefined && !pattern.test(value)) throw wrong(at(field), `${wanted} is needed`)
    if (line === 'refuse' && unprintableIn(value) !== null)
      throw wrong(at(field), 'one line of visible characters is needed')
    const fault = faultOf?.(value) ?? null
    if (fault !== null) throw wrong(at(field), fault)
    return line === 'escape' ? oneLine(value) : value
  }

  function checkedTime(field: string, value: unknown): string {
    const text = checkedText(field, value, { wanted: 'a time (ISO 8601)' })
    if (!/^\d{4}-\d\d-\d\dT/.test(text) || Number.isNaN(Date.parse(text)))
      throw wrong(at(field), 'a time (ISO 8601) is needed')
    return text
  }

  function integer(field: string, fallback: number): number {
    const value = valueOf(field) ?? fallback
    if (!Number.isSafeInteger(value)) throw wrong(at(field), 'a whole number is needed')
    return value as number
  }

  function flag(field: string, fallback: boolean): boolean {
    const value = valueOf(field) ?? fallback
    if (typeof value !== 'boolean') throw wrong(at(field), 'true or false is needed')
    return value
  }

  return {
    has: field => valueOf(field) !== undefined,
    text: (field, options = {}) => checkedText(field, valueOf(field) ?? options.fallback, options),
    nullableText: (field, options = {}) =>
      valueOf(field) == null ? null : checkedText(field, valueOf(field), options),
    flag,
    nullableFlag: field => (valueOf(field) == null ? null : flag(field, false)),
    integer,
    nullableInteger(field, { min, max } = { min: -Infinity, max: Infinity }) {
      if (valueOf(field) == null) return null
      const value = integer(field, 0)
      if (value < min || value > max) throw wrong(at(field), `a whole number from ${min} to ${max} is needed`)
      return value
    },
    choice(field, values, fallback) {
      const value = valueOf(field) ?? fallback
      const known = values.find(one => one === value)
      if (known === undefined) throw wrong(at(field), `one of ${values.join(', ')} is needed`)
      return known
    },
    time: (field, fallback) => checkedTime(field, valueOf(field) ?? fallback),
    nullableTime: field => (valueOf(field) == null ? null : checkedTime(field, valueOf(field))),
    texts(field, options = {}) {
      const value = listOf(field)
      return value.map((item, index) => checkedText(`${field}[${index}]`, item, options))
    },
    value: valueOf,
    refusal: (field, reason) => wrong(at(field), reason),
    list: (field, read) => listOf(field).map((item, index) => read(readerOf(item, `${at(field)}[${index}]`)))
  }

  function listOf(field: string): unknown[] {
    const value = valueOf(field) ?? []
    if (!Array.isArray(value) || value.length > maxItems)
      throw wrong(at(field), `a list of at most ${maxItems} items is needed`)
    return value
  }
}

function wrong(place: string, reason: string): Error {
  return invalid(place, `${place} cannot be imported: ${reason}`)
}
