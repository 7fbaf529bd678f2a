/*
 * What JSON.parse does not tell of a text: RFC 8259 §4 leaves open what an object means that has a key twice, and JSON.parse
 * takes the last one. Another program, or the reader of a review, may take the first.
 */

/** Strings and signs of JSON. The text has been parsed, so that nothing else matters. */
const tokens = /"[^"\\]*(?:\\[^][^"\\]*)*"|[{}[\],]/g

/** A key that an object has twice, however it is written; `line` is that of the second one, from 1. */
export interface DoubledKey {
  key: string
  line: number
}

/** Returns the first key that an object has twice, `deep` if more than `maxDepth` values contain each other, otherwise null. */
export function doubledKeyIn(text: string, maxDepth = Infinity): DoubledKey | 'deep' | null {
  const open: Array<{ keys: Set<string>; isKey: boolean } | null> = []
  for (const { 0: token, index } of text.matchAll(tokens)) {
    const inside = open.at(-1)
    if (token === '{') open.push({ keys: new Set(), isKey: true })
    else if (token === '[') open.push(null)
    else if (token === '}' || token === ']') open.pop()
    else if (token === ',') {
      if (inside != null) inside.isKey = true
    } else if (inside?.isKey) {
      const key = JSON.parse(token) as string
      if (inside.keys.has(key)) return { key, line: text.slice(0, index).split('\n').length }
      inside.keys.add(key)
      inside.isKey = false
    }
    if (open.length > maxDepth) return 'deep'
  }
  return null
}

/** Returns what is wrong with the keys of a text, as the end of a sentence; null: nothing. The text has been parsed. */
export function keyFaultOf(text: string): string | null {
  const found = doubledKeyIn(text)
  if (found === null || found === 'deep') return null
  return `the key ${JSON.stringify(found.key.slice(0, 50))} comes twice in one object, in line ${found.line}. Remove one of them`
}
