/*
 * JSON that means the same to every reader. RFC 8259 leaves open what an object means that has a key twice (§4), and what a
 * string means with half of a surrogate pair (§8.2). JSON.parse takes the last value; a text in UTF-8 cannot contain the half,
 * so that U+FFFD would be stored instead. Another program, or the reader of a review, may see something else.
 */

/** Strings and signs of JSON. The text has been parsed, so that nothing else matters. */
const tokens = /"[^"\\]*(?:\\[^][^"\\]*)*"|[{}[\],]/g
const half = /\p{Surrogate}/u
/** Maximum number of characters of a text in a message. */
const maxShown = 50

/** Why a text is not taken as JSON. The message is the end of a sentence. */
export class JsonFault extends Error {
  readonly kind: 'syntax' | 'key' | 'half' | 'deep'

  constructor(kind: JsonFault['kind'], message: string, cause?: unknown) {
    super(message, { cause })
    this.kind = kind
  }
}

interface JsonLimits {
  /** Maximum number of values that contain each other. */
  maxDepth?: number
  /** Whether bytes may begin with a byte order mark. */
  takesMark?: boolean
}

/** Reads a JSON text, or bytes in UTF-8. Throws JsonFault. */
export function strictJson(
  source: string | Uint8Array,
  { maxDepth = Infinity, takesMark = true }: JsonLimits = {}
): unknown {
  let text: string
  let value: unknown
  try {
    text =
      typeof source === 'string'
        ? source
        : new TextDecoder('utf-8', { fatal: true, ignoreBOM: !takesMark }).decode(source)
    value = JSON.parse(text)
  } catch (cause) {
    throw new JsonFault('syntax', 'it is not valid JSON', cause)
  }
  checkTokens(text, maxDepth)
  return value
}

function checkTokens(text: string, maxDepth: number): void {
  const open: Array<{ keys: Set<string>; isKey: boolean } | null> = []
  const lineOf = (index: number): number => text.slice(0, index).split('\n').length
  for (const { 0: token, index } of text.matchAll(tokens)) {
    const inside = open.at(-1)
    if (token === '{') open.push({ keys: new Set(), isKey: true })
    else if (token === '[') open.push(null)
    else if (token === '}' || token === ']') open.pop()
    else if (token === ',') {
      if (inside != null) inside.isKey = true
    } else {
      if (token.includes('\\u') && half.test(JSON.parse(token) as string)) throw halfFault(token, lineOf(index))
      if (!inside?.isKey) continue
      const key = JSON.parse(token) as string
      if (inside.keys.has(key)) throw keyFault(key, lineOf(index))
      inside.keys.add(key)
      inside.isKey = false
    }
    if (open.length > maxDepth) throw new JsonFault('deep', 'it is nested too deeply')
  }
}

/** `line` is that of the second one, from 1. */
function keyFault(key: string, line: number): JsonFault {
  const shown = JSON.stringify(key.slice(0, maxShown))
  return new JsonFault('key', `the key ${shown} comes twice in one object, in line ${line}. Remove one of them`)
}

function halfFault(token: string, line: number): JsonFault {
  const written = (token.match(/\\u[dD][89a-fA-F][\da-fA-F]{2}/g) ?? []).slice(0, 3).join(' … ')
  return new JsonFault(
    'half',
    `line ${line} contains half of a surrogate pair (${written}), which is no character. Write both halves, or remove it`
  )
}
