/*
 * JSON that means the same to every reader. RFC 8259 leaves open what an object means that has a key twice (§4), and what a
 * string means with half of a surrogate pair (§8.2). JSON.parse takes the last value; a text in UTF-8 cannot contain the half,
 * so that U+FFFD would be stored instead. Another program, or the reader of a review, may see something else.
 */

/** Strings and signs of JSON. The text has been parsed, so that nothing else matters. */
const tokens = /"[^"\\]*(?:\\[^][^"\\]*)*"|[{}[\],]/g
const half = /\p{Surrogate}/u
/** Maximum number of characters of a key in a message, and of a field. */
const [maxShown, maxField] = [50, 200]

/** Why a text is not taken as JSON. The message is the end of a sentence. */
export class JsonFault extends Error {
  readonly kind: 'syntax' | 'key' | 'half' | 'deep'
  /** The value that is at fault, such as `items[0].name`; undefined: none, or the whole. */
  readonly field: string | undefined

  constructor(kind: JsonFault['kind'], message: string, { cause, field }: { cause?: unknown; field?: string } = {}) {
    super(message, { cause })
    this.kind = kind
    this.field = field || undefined
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
    throw new JsonFault('syntax', 'it is not valid JSON', { cause })
  }
  checkTokens(text, maxDepth)
  return value
}

/** An object or an array that contains what is read, and which of its values that is. */
type Around = { keys: Set<string>; isKey: boolean; at: string } | { keys: null; at: number }

function checkTokens(text: string, maxDepth: number): void {
  const open: Around[] = []
  const lineOf = (index: number): number => text.slice(0, index).split('\n').length
  for (const { 0: token, index } of text.matchAll(tokens)) {
    const inside = open.at(-1)
    if (token === '{') open.push({ keys: new Set(), isKey: true, at: '' })
    else if (token === '[') open.push({ keys: null, at: 0 })
    else if (token === '}' || token === ']') open.pop()
    else if (token === ',') {
      if (inside?.keys === null) inside.at++
      else if (inside !== undefined) inside.isKey = true
    } else {
      const isKey = inside !== undefined && inside.keys !== null && inside.isKey
      if (token.includes('\\u') && half.test(JSON.parse(token) as string))
        throw halfFault(token, lineOf(index), fieldOf(isKey ? open.slice(0, -1) : open))
      if (!isKey) continue
      const key = JSON.parse(token) as string
      inside.at = key
      if (inside.keys.has(key)) throw keyFault(key, lineOf(index), fieldOf(open))
      inside.keys.add(key)
      inside.isKey = false
    }
    if (open.length > maxDepth) throw new JsonFault('deep', 'it is nested too deeply')
  }
}

function fieldOf(open: readonly Around[]): string {
  return open
    .map(({ at }) => (typeof at === 'number' ? `[${at}]` : `.${at}`))
    .join('')
    .replace(/^\./, '')
    .slice(0, maxField)
}

/** `line` is that of the second one, from 1. */
function keyFault(key: string, line: number, field: string): JsonFault {
  const shown = JSON.stringify(key.slice(0, maxShown))
  return new JsonFault('key', `the key ${shown} comes twice in one object, in line ${line}. Remove one of them`, {
    field
  })
}

function halfFault(token: string, line: number, field: string): JsonFault {
  const written = (token.match(/\\u[dD][89a-fA-F][\da-fA-F]{2}/g) ?? []).slice(0, 3).join(' … ')
  return new JsonFault(
    'half',
    `line ${line} contains half of a surrogate pair (${written}), which is no character. Write both halves, or remove it`,
    { field }
  )
}
