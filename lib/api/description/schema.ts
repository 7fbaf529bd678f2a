/*
 * Schemas of JSON values: JSON Schema 2020-12, which OpenAPI 3.1 uses. Each schema has an example, and the TypeScript
 * type of the values that it describes. A record's schema compiles only if it lists every field of the type, with its
 * type.
 */
import type { JsonSchema } from '../../base/json-schema.js'

/** A schema of values of type `T`. The type is invariant: a nullable field needs a nullable schema. */
export interface Schema<T> {
  readonly json: JsonSchema
  readonly example: unknown
  /** The named schemas that this one refers to, directly or through others. */
  readonly uses: ReadonlyMap<string, JsonSchema>
  /** Never present. It only carries the type. */
  readonly of?: (value: T) => T
}

/** The schema of a field that may be absent. */
export interface Optional<T> {
  readonly optional: Schema<T>
}

type Field<T, K extends keyof T> =
  Record<never, never> extends Pick<T, K> ? Optional<Exclude<T[K], undefined>> : Schema<T[K]>
type FieldsOf<T> = { [K in keyof T]-?: Field<T, K> }

const nothing: ReadonlyMap<string, JsonSchema> = new Map()

/** Returns a schema. `uses` lists the named schemas that `json` refers to. */
export function schema<T>(
  json: JsonSchema,
  example: unknown,
  uses: ReadonlyMap<string, JsonSchema> = nothing
): Schema<T> {
  return { json, example, uses }
}

/** A string. `json` adds limits and a description. */
export function text(example: string, json: JsonSchema = {}): Schema<string> {
  return schema({ type: 'string', ...json }, example)
}

/** A number. */
export function number(example: number, json: JsonSchema = {}): Schema<number> {
  return schema({ type: 'number', ...json }, example)
}

/** A whole number. */
export function integer(example: number, json: JsonSchema = {}): Schema<number> {
  return schema({ type: 'integer', ...json }, example)
}

/** A boolean. */
export function boolean(example: boolean, json: JsonSchema = {}): Schema<boolean> {
  return schema({ type: 'boolean', ...json }, example)
}

/** One fixed value. */
export function constant<const T>(value: T): Schema<T> {
  return schema({ const: value }, value)
}

/** One of several texts. */
export function oneOf<const T extends string>(values: readonly T[], example: T = values[0] as T): Schema<T> {
  return schema({ type: 'string', enum: values }, example)
}

/** A point in time as ISO 8601 text in UTC. */
export const instant = text('2030-01-02T03:04:05.678Z', { format: 'date-time' })
/** A point in time, or null. */
export const nullableInstant = nullable(instant)

/** Adds a description to a schema. */
export function described<T>(description: string, inner: Schema<T>): Schema<T> {
  return schema({ ...inner.json, description }, inner.example, inner.uses)
}

/** The values of `inner`, or null. `example` replaces the example of `inner`. */
export function nullable<T>(inner: Schema<T>, example: unknown = inner.example): Schema<T | null> {
  const { json } = inner
  const isPlain = typeof json.type === 'string' && json.enum === undefined
  return schema(
    isPlain ? { ...json, type: [json.type as string, 'null'] } : { anyOf: [json, { type: 'null' }] },
    example,
    inner.uses
  )
}

/** A text that is null for a caller without the right to it (masks.ts). */
export function hidden(inner: Schema<string>): Schema<string> {
  const { json, example, uses } = nullable(inner)
  return { json, example, uses }
}

/** Marks a field of a record as optional. */
export function optional<T>(inner: Schema<T>): Optional<T> {
  return { optional: inner }
}

/** A list. */
export function list<T>(items: Schema<T>, json: JsonSchema = {}): Schema<T[]> {
  return schema({ type: 'array', items: items.json, ...json }, [items.example], items.uses)
}

/** An object whose keys are not known in advance. */
export function dictionary<T>(values: Schema<T>, example: Record<string, unknown>): Schema<Record<string, T>> {
  return schema({ type: 'object', additionalProperties: values.json }, example, values.uses)
}

/** An object with exactly the fields of `T`. */
export function record<T extends object>(fields: FieldsOf<T>): Schema<T> {
  const entries = Object.entries(fields as Record<string, Schema<unknown> | Optional<unknown>>).map(([name, field]) =>
    'optional' in field ? { name, inner: field.optional, isRequired: false } : { name, inner: field, isRequired: true }
  )
  const json: JsonSchema = {
    type: 'object',
    properties: Object.fromEntries(entries.map(({ name, inner }) => [name, inner.json])),
    required: entries.filter(({ isRequired }) => isRequired).map(({ name }) => name),
    additionalProperties: false
  }
  const example = Object.fromEntries(
    entries.filter(({ isRequired }) => isRequired).map(({ name, inner }) => [name, inner.example])
  )
  return schema(json, example, usesOf(entries.map(({ inner }) => inner)))
}

/** A value of one of several schemas. The example is that of the first one. */
export function anyOf<T extends unknown[]>(...inners: { [K in keyof T]: Schema<T[K]> }): Schema<T[number]> {
  const all = inners as unknown as Array<Schema<unknown>>
  return schema({ anyOf: all.map(({ json }) => json) }, all[0]?.example, usesOf(all))
}

/** Gives a schema a name. The document contains it once, under this name. */
export function named<T>(name: string, inner: Schema<T>): Schema<T> {
  return schema({ $ref: `#/components/schemas/${name}` }, inner.example, new Map([...inner.uses, [name, inner.json]]))
}

/** Returns the named schemas that any of `schemas` refers to. */
export function usesOf(schemas: ReadonlyArray<Schema<unknown>>): ReadonlyMap<string, JsonSchema> {
  return new Map(schemas.flatMap(({ uses }) => [...uses]))
}
