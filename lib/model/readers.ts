import { type Change, changedValue, noValue, secretValue } from '../base/shared/audit.js'
import { sha256 } from '../base/digests.js'
import { oneLine } from '../base/text.js'

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

/*
 * Who reads a field of a record. Each record has one table of type `Readers`, beside its type: a field that the table
 * does not name does not compile, so no field is shown to everybody because somebody forgot it. The answers of the API
 * are made from these tables (api/deployments.ts).
 */

/**
 * Who reads a value: everybody who reads the record; only callers with the right to scripts; only admins; nobody. What nobody
 * reads is a secret: it is stored encrypted, and is shown as `***` so that a form can send it back.
 */
export type Reader = 'everybody' | 'scripts' | 'admins' | 'nobody'

/** A text that everybody reads, and that callers without the right to scripts read in another form. */
export interface Rephrased {
  without: (value: string) => string
}

type KeyOf<T> = T extends unknown ? keyof T & string : never
type ValueOf<T, K extends string> = T extends unknown ? (K extends keyof T ? T[K] : never) : never
type Given<T> = Exclude<T, null | undefined>

/** The readers of a value: of each field of an object, of each item of a list, of the values of a dictionary. */
export type Readers<T> = [T] extends [readonly (infer Item)[]]
  ? { items: Readers<Given<Item>> }
  : [T] extends [object]
    ? string extends keyof T
      ? { values: Reader }
      : { fields: { readonly [K in KeyOf<T>]-?: Readers<Given<ValueOf<T, K>>> } }
    : Reader | Rephrased

/** What a caller may see. */
export type Sight = 'admin' | 'scripts' | 'plain'

/** The text in the place of a secret. In a request it keeps the stored one. */
export const hiddenValue = '***'

const seenBy: Record<Reader, readonly Sight[]> = {
  everybody: ['admin', 'scripts', 'plain'],
  scripts: ['admin', 'scripts'],
  admins: ['admin'],
  nobody: []
}

/** The readers of a value of any type. */
type Rule = Reader | Rephrased | { items: Rule } | { values: Reader } | { fields: Readonly<Record<string, Rule>> }

/** Returns the function that shows a value as a caller sees it. A value in which nothing is hidden is returned itself. */
export function showing<T>(readers: Readers<T>, sight: Sight): <V extends Partial<T>>(value: V) => V {
  const show = compile(readers as Rule, sight)
  return value => (show === null ? value : (show(value) as typeof value))
}

type Show = (value: unknown) => unknown

/** Returns null if the rule hides nothing from these callers, so that records are not walked in vain. */
function compile(rule: Rule, sight: Sight): Show | null {
  if (typeof rule === 'string') {
    if (seenBy[rule].includes(sight)) return null
    return rule === 'nobody' ? () => hiddenValue : () => null
  }
  if ('without' in rule) return sight === 'plain' ? value => rule.without(value as string) : null
  if ('items' in rule) {
    const show = compile(rule.items, sight)
    return (
      show &&
      (value =>
        sameOr(
          value as unknown[],
          (value as unknown[]).map(item => shownTo(item, show))
        ))
    )
  }
  if ('values' in rule) {
    const show = compile(rule.values, sight)
    return show && (value => Object.fromEntries(Object.keys(value as object).map(name => [name, show(name)])))
  }
  const hiding = Object.entries(rule.fields).flatMap(([name, each]) => {
    const show = compile(each, sight)
    return show === null ? [] : [{ name, show }]
  })
  if (hiding.length === 0) return null
  return value => {
    const given = value as Record<string, unknown>
    let shown = given
    for (const { name, show } of hiding) {
      if (!Object.hasOwn(given, name)) continue
      const each = shownTo(given[name], show)
      if (each === given[name]) continue
      if (shown === given) shown = { ...given }
      shown[name] = each
    }
    return shown
  }
}

function shownTo(value: unknown, show: Show): unknown {
  return value === null || value === undefined ? value : show(value)
}

function sameOr(given: unknown[], shown: unknown[]): unknown[] {
  return shown.every((item, index) => item === given[index]) ? given : shown
}
