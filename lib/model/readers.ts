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
export type Rule =
  | Reader
  | Rephrased
  | { items: Rule }
  | { values: Reader }
  | { fields: Readonly<Record<string, Rule>> }

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
          (value as unknown[]).map(item => shownOf(item, show))
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
      const each = shownOf(given[name], show)
      if (each === given[name]) continue
      if (shown === given) shown = { ...given }
      shown[name] = each
    }
    return shown
  }
}

function shownOf(value: unknown, show: Show): unknown {
  return value === null || value === undefined ? value : show(value)
}

function sameOr(given: unknown[], shown: unknown[]): unknown[] {
  return shown.every((item, index) => item === given[index]) ? given : shown
}
