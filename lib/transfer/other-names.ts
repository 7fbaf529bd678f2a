/*
 * Records of programs of the same family: names in snake_case, 0 and 1 for booleans, lists as JSON texts, as their databases
 * have them, and other names of fields and settings. They become records with svc's own names, which the readers then check.
 */
import type { JsonSchema, Read } from '../base/fields.js'

/** Other names of fields, after the change from snake_case. */
const fields = new Map([['allowCliHooks', 'allowClientScripts']])
/** Other names of settings. */
const settings = new Map([
  ['artifact_keep_n', 'keep_archives'],
  ['allow_cli_hooks', 'allow_client_scripts']
])

/** Returns a reader that also takes the names and values of other programs. Where both names occur, svc's own applies. */
export function tolerant<T>(read: Read<T>): Read<T> {
  const properties = (read.schema as { properties?: Record<string, JsonSchema> }).properties ?? {}
  const tolerated = (value: unknown, field: string): T => read(renamed(value, properties), field)
  return Object.assign(tolerated, { schema: read.schema, example: read.example })
}

function renamed(given: unknown, properties: Readonly<Record<string, JsonSchema>>): unknown {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) return given
  const found = new Map<string, unknown>()
  for (const [key, value] of Object.entries(given)) {
    const name = Object.hasOwn(properties, key) ? key : ownName(key)
    if (name !== key && (Object.hasOwn(given, name) || found.has(name))) continue
    found.set(name, ownValue(value, typesOf(Object.hasOwn(properties, name) ? properties[name] : undefined)))
  }
  return Object.fromEntries(found)
}

function ownName(key: string): string {
  const camel = key.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase())
  return fields.get(camel) ?? camel
}

function typesOf(schema: JsonSchema | undefined): unknown[] {
  const { type, anyOf = [] } = (schema ?? {}) as { type?: unknown; anyOf?: JsonSchema[] }
  return [type, ...anyOf.flatMap(typesOf)]
}

function ownValue(value: unknown, types: readonly unknown[]): unknown {
  if (types.includes('boolean') && (value === 0 || value === 1)) return value === 1
  if (types.includes('array') && typeof value === 'string' && value.trimStart().startsWith('[')) return parsed(value)
  return value
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

/** Returns the settings of a package by their keys; other programs write a list of `{key, value}`. */
export function ownSettings(given: unknown): unknown {
  const entries: Array<[unknown, unknown]> = Array.isArray(given)
    ? given.map(item => [(item as { key?: unknown } | null)?.key, (item as { value?: unknown } | null)?.value])
    : Object.entries(given ?? {})
  const isList = Array.isArray(given)
  if (!isList && (typeof given !== 'object' || given === null)) return given
  const keys = new Set(entries.map(([key]) => key))
  return Object.fromEntries(
    entries.flatMap(([key, value]) => {
      if (typeof key !== 'string') return []
      const own = settings.get(key) ?? key
      return own !== key && keys.has(own) ? [] : [[own, value]]
    })
  )
}
