/*
 * Parses JSON that people write, with errors that name the file and the line. Only some versions of Node report the
 * position of a syntax error, so this module scans a rejected text again to find it.
 */
import { Refusal } from '../base/errors.js'
import { withoutMark } from '../base/text.js'

/** A JSON object with unchecked values. */
export type JsonObject = Record<string, unknown>

/**
 * Maximum length of a text in characters. Configuration files are shorter; a much longer text would take too much time
 * and memory.
 */
const maxTextLength = 4 * 1024 * 1024

/**
 * Parses a file's text as a JSON object; an empty text is `{}`. Refuses (`broken_config`) broken JSON and any other
 * value.
 */
export function parseJsonObject(text: string, path: string): JsonObject {
  if (text.length > maxTextLength) {
    throw new Refusal('invalid', 'broken_config', `Cannot read "${path}": longer than ${maxTextLength} characters`)
  }
  const bare = withoutMark(text)
  if (bare.trim() === '') return {}
  let value: unknown
  try {
    value = JSON.parse(bare)
  } catch (cause) {
    const { line, column, found } = whereItBreaks(bare)
    const sentence = `Cannot read "${path}": unexpected ${found} in line ${line}, column ${column}. Correct the JSON`
    throw new Refusal('invalid', 'broken_config', sentence, { cause })
  }
  if (value === null || typeof value !== 'object' || Array.isArray(value)) {
    throw new Refusal('invalid', 'broken_config', `Cannot read "${path}": not a JSON object. Write it as "{ … }"`)
  }
  return value as JsonObject
}

const space = /[ \t\r\n]*/y
const string = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[\da-fA-F]{4}))*"/y
const number = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/
const scalar = new RegExp(`${string.source}|${number.source}|true|false|null`, 'y')

/** The token that RFC 8259 allows next. The scan uses it to find the first token that is not allowed. */
type Expected = 'value' | 'value or ]' | 'key' | 'key or }' | 'colon' | 'comma or end'

function whereItBreaks(text: string): { line: number; column: number; found: string } {
  const open: string[] = []
  let expected: Expected = 'value'
  let at = 0
  for (;;) {
    at = match(space, text, at) ?? at
    const next = step(text, at, { expected, open })
    if (next === null) break
    ;[at, expected] = next
  }
  const before = text.slice(0, at).split('\n')
  const token = /^(?:[\w.+-]+|[^])/u.exec(text.slice(at))?.[0]
  const found = token === undefined ? 'end of file' : `"${token.slice(0, 20)}"`
  return { line: before.length, column: (before.at(-1) as string).length + 1, found }
}

interface State {
  expected: Expected
  /** The closing characters of the open objects and lists, the outermost first. */
  open: string[]
}

function step(text: string, at: number, { expected, open }: State): [number, Expected] | null {
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
