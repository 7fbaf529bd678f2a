import { invalid, Refusal } from './errors.js'
import { closest, countOf, invisibleIn, oneLine, unprintableIn } from './text.js'

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
type Fields<S extends Shape> = { [K in keyof S]: ReturnType<S[K]> }

/**
 * Reads the fields of a request's body and ignores all others. Refuses: 400 `invalid_body` if `body` is not an object,
 * 400 `invalid_field` for the first invalid field.
 */
export function readFields<S extends Shape>(body: unknown, shape: S): Fields<S> {
  if (!isObject(body)) {
    throw new Refusal('invalid', 'invalid_body', `The body is ${nameOf(body)}: expected a JSON object`)
  }
  return fieldsOf(body, shape, name => name)
}

/**
 * Reads the fields of a body that gives rights. Refuses, as `readFields` does, and (400 `invalid_field`) an unknown field: a
 * limit that is misspelt would be none.
 */
export function readRights<S extends Shape>(body: unknown, shape: S): Fields<S> {
  const fields = readFields(body, shape)
  const unknown = Object.keys(body as object).find(name => !Object.hasOwn(shape, name))
  if (unknown === undefined) return fields
  throw unknownKey(shown(unknown), unknown, Object.keys(shape))
}

interface ObjectOptions {
  /** Whether to refuse unknown fields. By default, they are ignored. */
  strict?: boolean
  /** The example in the API description. Default: the examples of the fields. */
  example?: unknown
}

/** Reads an object with the fields of a shape. An error names the field with its path, for example `gate.after[0]`. */
export function object<S extends Shape>(shape: S, { strict = false, example }: ObjectOptions = {}): Read<Fields<S>> {
  const readers = Object.entries(shape)
  const required = readers.filter(([, { isOptional }]) => isOptional !== true).map(([name]) => name)
  const schema: JsonSchema = {
    type: 'object',
    properties: Object.fromEntries(readers.map(([name, read]) => [name, read.schema])),
    ...(required.length > 0 && { required }),
    ...(strict && { additionalProperties: false })
  }
  const examples = Object.fromEntries(readers.map(([name, read]) => [name, read.example]))
  return reads(schema, example ?? examples, (value, field) => {
    if (!isObject(value)) throw wrongType(field, 'expected an object', value)
    const unknown = strict ? Object.keys(value).find(name => !Object.hasOwn(shape, name)) : undefined
    if (unknown !== undefined) {
      throw unknownKey(`${field}.${shown(unknown)}`, unknown, Object.keys(shape))
    }
    return fieldsOf(value, shape, name => `${field}.${name}`)
  })
}

/** Returns the refusal of a key at this place: which ones are known, and which of them was probably meant. */
export function unknownKey(place: string, key: string, known: readonly string[]): Refusal {
  const meant = closest(key, known)
  const advice = meant === undefined ? '' : `. Did you mean "${meant}"?`
  return invalid(place, `"${place}" is unknown: expected ${known.join(', ')}${advice}`)
}

function fieldsOf<S extends Shape>(given: Record<string, unknown>, shape: S, at: (name: string) => string): Fields<S> {
  for (const name of Object.keys(given)) if (!Object.hasOwn(shape, name)) refuseDroppedWish(name, shape)
  const entries = Object.entries(shape).map(([name, read]) => {
    return [name, read(Object.hasOwn(given, name) ? given[name] : undefined, at(name))] as const
  })
  return Object.fromEntries(entries) as Fields<S>
}

const holdsBack =
  /^(dry[-_ ]?run|preview|simulate|simulation|what[-_]?if|(check|plan|validate)[-_]?only|no[-_]?op|at|schedule(d)?([-_]?(at|for))?)$/i

/**
 * Refuses an unknown field that asks to change nothing, or nothing yet, or that is a known one in another spelling. Unknown
 * fields are ignored, because clients may be newer; but if this wish were ignored, the change would be carried out.
 */
export function refuseDroppedWish(name: string, known: Readonly<Record<string, unknown>> = {}): void {
  const meant = Object.keys(known).find(field => plainName(field) === plainName(name))
  if (meant === undefined && !holdsBack.test(name)) return
  const advice = meant === undefined ? '' : `. The field is "${meant}"`
  const sentence = `"${shown(name)}" is unknown here, and without it the request would be carried out: nothing was changed`
  throw invalid(name, sentence + advice)
}

/** Returns a name without what other languages write differently: `start_at` and `startAt` are the same. */
const plainName = (name: string): string => name.replaceAll(/[-_ ]/g, '').toLowerCase()

/** Whether a value is an object; its fields are still unchecked. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Reads an object whose keys are not known in advance. `faultOf` returns what is wrong with a key, or null. */
export function record<T>(read: Read<T>, faultOf: (key: string) => string | null): Read<Record<string, T>> {
  const schema: JsonSchema = { type: 'object', additionalProperties: read.schema }
  return reads(schema, {}, (value, field) => {
    if (!isObject(value)) throw wrongType(field, 'expected an object', value)
    const entries = Object.entries(value).map(([key, item]) => {
      const place = `${field}.${shown(key)}`
      const fault = faultOf(key)
      if (fault !== null) throw invalid(place, `"${place}" ${fault}`)
      return [key, read(item, place)] as const
    })
    return Object.fromEntries(entries)
  })
}

/** Reads a value and changes it. */
export function mapped<T, U>(read: Read<T>, change: (value: T, field: string) => U): Read<U> {
  const { schema, example, isOptional = false } = read
  return Object.assign((value: unknown, field: string) => change(read(value, field), field), {
    schema,
    example,
    ...(isOptional && { isOptional })
  })
}

/** Reads a value and checks it. `faultOf` returns why a value is refused, as the end of a sentence, or null. */
export function checked<T>(read: Read<T>, faultOf: (value: T) => string | null): Read<T> {
  return mapped(read, (given, field) => {
    const fault = faultOf(given)
    if (fault !== null) throw invalid(field, `"${field}" is not valid: ${fault}`)
    return given
  })
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

/** Makes a field optional: an absent field and null both become `fallback`. */
export function withDefault<T>(read: Read<T>, fallback: T): Read<T> {
  return mapped(nullable(read), given => given ?? fallback)
}

interface TextLimits {
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
const maxTextLength = 10_000
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

/** Reads a string and escapes what a line must not contain. Use it for names in the files of other programs. */
export function escapedLine(limits: TextLimits = {}): Read<string> {
  return mapped(multiline(limits), oneLine)
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

/**
 * Reads a display name: trimmed, not empty, at most 200 characters, and nothing that makes it look like another one. Letters
 * with marks are one character (NFC), however the client has written them.
 */
export const name: Read<string> = mapped(line({ min: 1, max: maxNameLength, trim: true }), (given, field) => {
  const found = invisibleIn(given)
  if (found === null) return given.normalize('NFC')
  const sentence = `"${field}" contains the invisible character ${found}, which can make it look like another name`
  throw invalid(field, sentence)
})

/** Reads a point in time (ISO 8601) and returns it as it is written. */
export const instant: Read<string> = checked(line({ max: 100 }), given =>
  /^\d{4}-\d\d-\d\dT/.test(given) && !Number.isNaN(Date.parse(given)) ? null : 'expected a time (ISO 8601)'
)

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
export function oneOf<const T extends string>(values: readonly T[]): Read<T> {
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

function tooShort(field: string, length: number, min: number): Refusal {
  if (min === 1) return invalid(field, `"${field}" is empty`)
  return invalid(field, `"${field}" is too short: ${length} characters, at least ${min}`)
}

function wrongType(field: string, wanted: string, value: unknown): Refusal {
  if (value === undefined) return invalid(field, `"${field}" is missing: ${wanted}`)
  const given = typeof value === 'string' ? `"${shown(value)}"` : nameOf(value)
  return invalid(field, `"${field}" is ${given}: ${wanted}`)
}

function shown(text: string): string {
  return oneLine(text.slice(0, 80))
}

function nameOf(value: unknown): string {
  if (value === null) return 'null'
  if (value === undefined) return 'empty'
  if (Array.isArray(value)) return 'a list'
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`
}

/** The keywords of JSON Schema that the description uses. */
export interface JsonSchema {
  type?: string | string[]
  const?: unknown
  enum?: readonly unknown[]
  description?: string
  format?: string
  pattern?: string
  minLength?: number
  maxLength?: number
  minimum?: number
  maximum?: number
  minItems?: number
  maxItems?: number
  items?: JsonSchema
  properties?: Record<string, JsonSchema>
  required?: string[]
  additionalProperties?: JsonSchema | false
  anyOf?: JsonSchema[]
  not?: JsonSchema
  $ref?: string
  contentMediaType?: string
}

/** Reads a SHA-256 in hexadecimal. */
export const sha256Text = checked(line({ max: 64 }), given =>
  /^[0-9a-f]{64}$/.test(given) ? null : 'expected the 64 hex digits of a SHA-256'
)

/** Removes the fields that are undefined, because an absent field keeps its value. */
export function present<T extends object>(fields: T): { [Key in keyof T]?: Exclude<T[Key], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as ReturnType<
    typeof present<T>
  >
}

/** Returns the fields of a record that are named. */
export function pick<T, K extends keyof T>(record: T, names: readonly K[]): Pick<T, K> {
  return Object.fromEntries(names.map(name => [name, record[name]])) as Pick<T, K>
}
