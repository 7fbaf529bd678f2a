import { type Change, changedValue, noValue, secretValue } from '../base/shared/audit-changes.js'
import { sha256 } from '../base/digests.js'
import { oneLine } from '../base/text.js'
import type { Readers, Rule } from './readers.js'

/** Maximum length of a value in an entry. Of a longer one, its beginning and its digest are shown. */
const maxValue = 300
/** The length of the beginning that is shown. */
const shownOfLong = 200
/** Words that stand for something, so that a value that is equal to one is quoted. */
const reserved: ReadonlySet<string> = new Set([noValue, secretValue, changedValue])

/** The values before and after. */
type Pair = readonly [before: unknown, after: unknown]

/** The rule of a value that is compared as a whole. */
type LeafRule = Extract<Rule, string | { without: unknown }>

/**
 * Returns the fields that differ between two states of a record, in the order of `readers`. Without `before`, the fields of
 * a new record. Scripts are shown as their SHA-256, and secrets not at all. An empty value is as none.
 */
export function changes<T>(before: Partial<T> | null, after: Partial<T>, readers: Readers<T>): Change[] {
  const found = [...differences([before ?? {}, after], readers as Rule, '')]
  if (before === null) return found.map(change => ({ ...change, from: null }))
  return found.map(({ field, from, to }) =>
    from === to ? { field, from: null, to: changedValue } : { field, from, to }
  )
}

/** Returns the fields in which a new record differs from one with the defaults. */
export function beyondDefaults<T>(defaults: Partial<T>, made: Partial<T>, readers: Readers<T>): Change[] {
  return changes(defaults, made, readers).map(change => ({ ...change, from: null }))
}

function* differences([before, after]: Pair, rule: Rule, path: string): Generator<Change> {
  if (typeof rule === 'string' || 'without' in rule) yield* leaf([before, after], path, value => shownOf(value, rule))
  else if ('items' in rule) {
    const { items } = rule
    const [a, b] = [(before ?? []) as readonly unknown[], (after ?? []) as readonly unknown[]]
    if (typeof items === 'string' || 'without' in items) {
      const lists: Pair = [a.length > 0 ? a : null, b.length > 0 ? b : null]
      yield* leaf(lists, path, list => listOf(list as unknown[], items))
    } else {
      for (let at = 0; at < Math.max(a.length, b.length); at++)
        yield* differences([a[at], b[at]], items, `${path}[${at}]`)
    }
  } else {
    const [a, b] = [before ?? {}, after ?? {}] as [Record<string, unknown>, Record<string, unknown>]
    if ('values' in rule) {
      for (const key of [...new Set([...Object.keys(a), ...Object.keys(b)])].sort())
        yield* leaf([a[key], b[key]], `${path}.${oneLine(key)}`, value => shownOf(value, rule.values))
    } else {
      for (const [key, each] of Object.entries(rule.fields))
        yield* differences([present(a[key]), present(b[key])], each, path === '' ? key : `${path}.${key}`)
    }
  }
}

/** Returns null for an empty text. */
function present(value: unknown): unknown {
  return value === '' ? null : value
}

/** Compares the values themselves and yields them as they are shown. */
function* leaf([before, after]: Pair, field: string, show: (value: unknown) => string): Generator<Change> {
  if (JSON.stringify(before ?? null) === JSON.stringify(after ?? null)) return
  const [from = noValue, to = noValue] = [before, after].map(value => (value == null ? undefined : show(value)))
  yield { field, from, to }
}

/** Returns a list of texts as one value. */
function listOf(items: readonly unknown[], rule: LeafRule): string {
  const shown = items.map(item => shownOf(item, rule))
  return cut(shown.map(item => (/^[^"].*, /.test(item) ? quoted(item) : item)).join(', '))
}

function shownOf(value: unknown, rule: LeafRule): string {
  if (typeof rule !== 'string') return textOf(rule.without(String(value)))
  if (rule === 'everybody') return textOf(String(value))
  return rule === 'scripts' ? `SHA-256 ${digestOf(String(value))}` : secretValue
}

/** Returns a text as it is shown: on one line, and quoted if it is not plainly itself. */
function textOf(text: string): string {
  const isPlain = text === text.trim() && text !== '' && !/"| → /.test(text) && oneLine(text) === text
  return isPlain && !reserved.has(text) ? oneLine(cut(text)) : quoted(cut(text))
}

function quoted(text: string): string {
  return `"${oneLine(text.replace(/["\\]/g, '\\$&'))}"`
}

function cut(text: string): string {
  return text.length <= maxValue ? text : `${text.slice(0, shownOfLong)}… (SHA-256 ${digestOf(text)})`
}

function digestOf(text: string): string {
  return sha256(Buffer.from(text)).toString('hex')
}
