/*
 * JSON as people write it: with an error that names the file and the line. JSON.parse says where it stumbled in some
 * versions of Node and not in others, so a text it refuses is walked once more, here.
 */
import { Refusal } from '../base/refusal.js'

export type JsonObject = Record<string, unknown>

/** What people write is shorter; parsing much more would take long, and all of the memory. */
const maxTextLength = 4 * 1024 * 1024

/** The object in a file's text, `{}` where the text is empty. Refuses broken JSON, and any value but an object. */
export function parseJsonObject(text: string, path: string): JsonObject {
  if (text.length > maxTextLength) {
    throw new Refusal('invalid', 'broken_config', `${path} could not be read: it is longer than ${maxTextLength} characters`)
  }
  const bare = text.replace(/^\ufeff/, '')
  if (bare.trim() === '') return {}
  let value: unknown
  try {
    value = JSON.parse(bare)
  } catch (cause) {
    const { line, column, found } = whereItBreaks(bare)
    const sentence = `${path} could not be read: line ${line}, column ${column}: ${found} is not JSON there; correct it`
    throw new Refusal('invalid', 'broken_config', sentence, { cause })
  }
  if (value === null || typeof value !== 'object' || Array.isArray(value)) {
    throw new Refusal('invalid', 'broken_config', `${path} could not be read: it must hold a JSON object ("{ … }"); correct it`)
  }
  return value as JsonObject
}

const space = /[ \t\r\n]*/y
const string = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[\da-fA-F]{4}))*"/
const number = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/
const scalar = new RegExp(`${string.source}|${number.source}|true|false|null`, 'y')

/** RFC 8259: what may come next, from which the first token that may not is found. */
type Expected = 'value' | 'value or ]' | 'key' | 'key or }' | 'colon' | 'comma or end'

function whereItBreaks(text: string): { line: number; column: number; found: string } {
  const open: string[] = []
  let expected: Expected = 'value'
  let at = 0
  for (;;) {
    at = match(space, text, at) ?? at
    const next = step(text, at, expected, open)
    if (next === null) break
    ;[at, expected] = next
  }
  const before = text.slice(0, at).split('\n')
  const token = /^(?:[\w.+-]+|[^])/u.exec(text.slice(at))?.[0]
  const found = token === undefined ? 'the end of the file' : `"${token.slice(0, 20)}"`
  return { line: before.length, column: (before.at(-1) as string).length + 1, found }
}

function step(text: string, at: number, expected: Expected, open: string[]): [number, Expected] | null {
  const character = text[at]
  const isKey = expected === 'key' || expected === 'key or }'
  if (expected === 'colon') return character === ':' ? [at + 1, 'value'] : null
  if (expected === 'comma or end' && character === ',' && open.length > 0) {
    return [at + 1, open.at(-1) === '}' ? 'key' : 'value']
  }
  if (expected !== 'value' && expected !== 'key' && character !== undefined && character === open.at(-1)) {
    open.pop()
    return [at + 1, 'comma or end']
  }
  if (expected === 'comma or end') return null
  if (!isKey && (character === '{' || character === '[')) {
    open.push(character === '{' ? '}' : ']')
    return [at + 1, character === '{' ? 'key or }' : 'value or ]']
  }
  const end = isKey && character !== '"' ? null : match(scalar, text, at)
  return end === null ? null : [end, isKey ? 'colon' : 'comma or end']
}

function match(pattern: RegExp, text: string, at: number): number | null {
  pattern.lastIndex = at
  return pattern.test(text) ? pattern.lastIndex : null
}
