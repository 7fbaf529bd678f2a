/*
 * Translation of the panel. English texts are in the code and are the keys; other languages are tables (`zh/<page>.ts`)
 * that are loaded with the page. The document has one table, like the style sheets of www/elements/element.ts.
 */

/** A supported language. */
export type Language = 'en' | 'zh'
/** Translations by English text. */
export type Words = Readonly<Record<string, string>>

const known = new Map<string, string>()
const byPrefix = new Map<string, { of: number; words: ReadonlyMap<string, string> }>()
let current: Language = 'en'

/** Sets the language. Call it before the first text is shown, because nothing is rendered again. */
export function setLanguage(language: Language): void {
  current = language
}

/** Returns the current language. */
export function language(): Language {
  return current
}

/** Adds translations into the current language. */
export function addWords(words: Words): void {
  for (const [english, other] of Object.entries(words)) known.set(english, other)
}

/** Returns the translations whose keys begin with a prefix, by the rest of the key. */
export function wordsFor(prefix: string): ReadonlyMap<string, string> {
  let found = byPrefix.get(prefix)
  if (found === undefined || found.of !== known.size) {
    const words = new Map(
      [...known].flatMap(([key, text]) => (key.startsWith(prefix) ? [[key.slice(prefix.length), text] as const] : []))
    )
    byPrefix.set(prefix, (found = { of: known.size, words }))
  }
  return found.words
}

/** Returns a text in the user's language with `{name}` replaced by its value. Falls back to English. */
export function t(english: string, values?: Readonly<Record<string, string | number>>): string {
  const text = current === 'en' ? english : (known.get(english) ?? english)
  if (values === undefined) return text
  return text.replace(/\{(\w+)\}/g, (hole, name: string) => String(values[name] ?? hole))
}

/** Formats a number in the user's language: `12,345`. */
export function numberWords(value: number): string {
  return value.toLocaleString(current === 'zh' ? 'zh-CN' : 'en')
}

/** Formats a count with its noun: `1 file`, `2,000 files`. The noun is a singular text of its own. */
export function countWords(count: number, noun: string): string {
  if (current !== 'en') return `${numberWords(count)} ${t(noun)}`
  return `${numberWords(count)} ${noun}${count === 1 ? '' : 's'}`
}
