/*
 * The panel in the reader's language. English is written in the code and is the key; other languages are tables beside
 * it (`zh/<page>.ts`), imported with the page that needs them. One table for the document, like the sheets of element.ts.
 */

export type Language = 'en' | 'zh'
export type Words = Readonly<Record<string, string>>

const known = new Map<string, string>()
const byPrefix = new Map<string, { of: number; words: ReadonlyMap<string, string> }>()
let current: Language = 'en'

/** Chooses the language; before the first text is shown, since nothing is rendered again for it. */
export function setLanguage(language: Language): void {
  current = language
}

export function language(): Language {
  return current
}

/** Adds a table of English texts and what they are in the current language. */
export function addWords(words: Words): void {
  for (const [english, other] of Object.entries(words)) known.set(english, other)
}

/** The words whose keys begin with a prefix, by the rest of the key. */
export function wordsFor(prefix: string): ReadonlyMap<string, string> {
  let found = byPrefix.get(prefix)
  if (found === undefined || found.of !== known.size) {
    const words = new Map([...known].flatMap(([key, text]) => (key.startsWith(prefix) ? [[key.slice(prefix.length), text] as const] : [])))
    byPrefix.set(prefix, (found = { of: known.size, words }))
  }
  return found.words
}

/** The text in the reader's language, `{name}` replaced by the value of that name; English where none is known. */
export function t(english: string, values?: Readonly<Record<string, string | number>>): string {
  const text = current === 'en' ? english : (known.get(english) ?? english)
  if (values === undefined) return text
  return text.replace(/\{(\w+)\}/g, (hole, name: string) => String(values[name] ?? hole))
}

/** A number as the reader's language writes it: `12,345`. */
export function numberWords(value: number): string {
  return value.toLocaleString(current === 'zh' ? 'zh-CN' : 'en')
}

/** A count with its noun: `1 file`, `2,000 files`; the noun is a text of its own, in the singular. */
export function countWords(count: number, noun: string): string {
  if (current !== 'en') return `${numberWords(count)} ${t(noun)}`
  return `${numberWords(count)} ${noun}${count === 1 ? '' : 's'}`
}
