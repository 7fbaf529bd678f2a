import { oneLine, unprintableIn } from '../base/one-line.js'
import { invalid } from '../base/refusal.js'

/** One record of a package's file, read field by field. A refusal names the file, the record's index and the field. */
export interface FieldReader {
  has(field: string): boolean
  /** Absent, and without a fallback: refused. */
  text(field: string, options?: TextOptions): string
  /** Absent or null: null. */
  nullableText(field: string, options?: TextOptions): string | null
  flag(field: string, fallback: boolean): boolean
  nullableFlag(field: string): boolean | null
  integer(field: string, fallback: number): number
  /** `min` and `max`: both included; default: any. */
  nullableInteger(field: string, range?: { min: number; max: number }): number | null
  choice<T extends string>(field: string, values: readonly T[], fallback?: T): T
  /** An instant, as it is written. */
  time(field: string, fallback?: string): string
  nullableTime(field: string): string | null
  texts(field: string, options?: TextOptions): string[]
  /** A list of objects, each read by `read`; absent: none. */
  list<T>(field: string, read: (item: FieldReader) => T): T[]
  /** The value as it is, for a reader of its own. */
  value(field: string): unknown
  /** The refusal of a field for a reason that is its reader's. */
  refusal(field: string, reason: string): Error
}

export interface TextOptions {
  fallback?: string
  /** What it must match, and how that is said. */
  pattern?: RegExp
  wanted?: string
  /** Text of one line: what is in the way of that is escaped in a name, and refused in what is used as it is. */
  oneLine?: 'escape' | 'refuse'
  /** Why it cannot be taken, as the end of a sentence; null: it can. */
  faultOf?: (text: string) => string | null
}

/** Ids come into file names and addresses, so they are short words, whoever has written them. */
export const idPattern = /^[A-Za-z0-9][\w-]{0,99}$/
export const idWanted = 'an id of letters, digits, "_" and "-"'

const maxTextLength = 1024 * 1024
const maxItems = 10_000

/** The reader of a record; `place` names it in refusals: `projects.json[3]`. Refuses what is no object. */
export function readerOf(record: unknown, place: string): FieldReader {
  if (typeof record !== 'object' || record === null || Array.isArray(record)) throw wrong(place, 'an object is needed')
  const given = record as Record<string, unknown>
  const valueOf = (field: string): unknown => (Object.hasOwn(given, field) ? given[field] : undefined)
  const at = (field: string): string => `${place}.${field}`

  function checkedText(field: string, value: unknown, { pattern, wanted = 'a text', oneLine: line, faultOf }: TextOptions): string {
    if (typeof value !== 'string') throw wrong(at(field), `${wanted} is needed`)
    if (value.includes('\0') || value.length > maxTextLength) throw wrong(at(field), 'it is too long, or holds a NUL')
    if (pattern !== undefined && !pattern.test(value)) throw wrong(at(field), `${wanted} is needed`)
    if (line === 'refuse' && unprintableIn(value) !== null) throw wrong(at(field), 'one line of visible characters is needed')
    const fault = faultOf?.(value) ?? null
    if (fault !== null) throw wrong(at(field), fault)
    return line === 'escape' ? oneLine(value) : value
  }

  function checkedTime(field: string, value: unknown): string {
    const text = checkedText(field, value, { wanted: 'a time (ISO 8601)' })
    if (!/^\d{4}-\d\d-\d\dT/.test(text) || Number.isNaN(Date.parse(text))) throw wrong(at(field), 'a time (ISO 8601) is needed')
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
    nullableText: (field, options = {}) => (valueOf(field) == null ? null : checkedText(field, valueOf(field), options)),
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
    if (!Array.isArray(value) || value.length > maxItems) throw wrong(at(field), `a list of at most ${maxItems} is needed`)
    return value
  }
}

function wrong(place: string, reason: string): Error {
  return invalid(place, `${place} cannot be imported: ${reason}`)
}
