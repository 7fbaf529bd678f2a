/*
 * Text that people, editors and secret stores wrote. A byte order mark at its beginning belongs to no word of it, and
 * UTF-16 (a redirection of Windows PowerShell) is refused instead of read as garbage.
 */
import { readFile } from 'node:fs/promises'
import { invalid, Refusal } from './errors.js'

const byteOrderMark = '\ufeff'

/** Returns a text without the byte order mark at its beginning. */
export function withoutMark(text: string): string {
  return text.startsWith(byteOrderMark) ? text.slice(1) : text
}

/**
 * Decodes UTF-8. Refuses (`not_utf8`) UTF-16, with or without its mark, and other bytes that are not UTF-8: a replacement for them would
 * be stored or run. `name` is what is read, for the sentence.
 */
export function decodeText(bytes: Buffer, name: string): string {
  const text = decodeLoosely(bytes, name)
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(bytes)
    return text
  } catch (cause) {
    throw new Refusal('invalid', 'not_utf8', `Cannot read ${name}: it is not UTF-8 text. Save it as UTF-8`, { cause })
  }
}

/** Decodes like `decodeText`, with U+FFFD for each byte that is not UTF-8: for a file of which svc reads only a part. */
export function decodeLoosely(bytes: Buffer, name: string): string {
  const [first, second] = bytes
  const hasMark = (first === 0xff && second === 0xfe) || (first === 0xfe && second === 0xff)
  // Without a mark, every other byte of its ASCII characters is zero. UTF-8 text contains no zero bytes.
  const isWide = hasMark || (bytes.length > 1 && (first === 0) !== (second === 0))
  if (!isWide) return withoutMark(bytes.toString('utf8'))
  throw new Refusal('invalid', 'not_utf8', `Cannot read ${name}: it is UTF-16 text. Save it as UTF-8`)
}

/** Reads a text file. Refuses what `decodeText` refuses, and rejects with the errors of the file system. */
export async function readText(path: string): Promise<string> {
  return decodeText(await readFile(path), `"${path}"`)
}

/**
 * Returns a token without the white space around it, which secret stores and editors add. Refuses (`invalid_field`) a
 * character that no HTTP header can carry (RFC 9110 §5.5). `from` is the option, variable or file.
 */
export function tokenOf(text: string, from: string): string {
  const token = text.trim()
  const at = token.search(/[^\t\x20-\x7e\x80-\xff]/)
  if (at === -1) return token
  const code = (token.codePointAt(at) as number).toString(16).toUpperCase().padStart(4, '0')
  throw invalid(from, `The token of ${from} is not one: its character ${at + 1} is U+${code}. Copy it again`)
}

/*
 * Text that must stay on one line and look like what it is. A name that contains a newline can forge a log line. A name
 * that contains a bidirectional mark displays its letters in another order (CVE-2021-42574).
 */

/**
 * Control characters (C0, DEL, C1), line and paragraph separators, bidirectional marks, and halves of surrogate pairs.
 */
const unprintable =
  /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g

/** Returns the first character that is not allowed in text of one line, as `U+XXXX`, or null if there is none. */
export function unprintableIn(text: string): string | null {
  const [found] = text.match(unprintable) ?? []
  return found === undefined ? null : `U+${hexOf(found).toUpperCase()}`
}

/**
 * Characters that change the text direction (a name ending in `exe` is displayed as ending in `jpg`), and characters
 * without width (two names look the same). Joiner and non-joiner are allowed: emoji and Persian need them.
 */
export const invisibleCharacter = /[\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/

/** Returns the first character of a name that can make it look like another one, as `U+XXXX`, or null if there is none. */
export function invisibleIn(text: string): string | null {
  const [found] = invisibleCharacter.exec(text) ?? []
  return found === undefined ? null : `U+${hexOf(found).toUpperCase()}`
}

const control = /[\u0000-\u001f\u007f-\u009f]/

/** Whether text contains a control character. svc does not read, write or print paths that contain one. */
export function hasControlCharacter(text: string): boolean {
  return control.test(text)
}

/** Returns the text with every such character escaped (`\n`, `\u202e`), so that it is always one line. */
export function oneLine(text: string): string {
  return text.replace(unprintable, found => shortEscapes[found] ?? `\\u${hexOf(found)}`)
}

const shortEscapes: Record<string, string> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' }

function hexOf(character: string): string {
  return character.charCodeAt(0).toString(16).padStart(4, '0')
}

const newline = 10
const carriageReturn = 13

/** Maximum length of a line that is passed on whole. A longer one is passed on in pieces of this size. */
export const maxLineBytes = 64 * 1024

/**
 * Creates a splitter. Lines are passed on without their `\n` or `\r\n`, decoded as UTF-8 when they are complete, with
 * invalid bytes as U+FFFD. Fragments are kept in an array and joined once. `limitBytes` is the maximum size of a piece.
 */
export function createLineSplitter(onLine: (line: string) => void, limitBytes = maxLineBytes) {
  let held: Buffer[] = []
  let heldBytes = 0

  function hold(bytes: Buffer): void {
    held.push(bytes)
    heldBytes += bytes.length
    if (heldBytes <= limitBytes) return
    const whole = Buffer.concat(held, heldBytes)
    let from = 0
    while (whole.length - from > limitBytes) {
      const to = startOfCharacter(whole, from + limitBytes)
      onLine(whole.toString('utf8', from, to))
      from = to
    }
    held = [whole.subarray(from)]
    heldBytes = whole.length - from
  }

  function finish(last: Buffer): void {
    let whole = last
    if (heldBytes > 0 || last.length > limitBytes) {
      hold(last)
      whole = Buffer.concat(held, heldBytes)
      held = []
      heldBytes = 0
    }
    const end = whole[whole.length - 1] === carriageReturn ? whole.length - 1 : whole.length
    onLine(whole.toString('utf8', 0, end))
  }

  return {
    /** Number of bytes of the incomplete line. */
    get heldBytes() {
      return heldBytes
    },

    /** Takes bytes that may be split anywhere. Calls back once for each complete line. */
    push(chunk: Buffer): void {
      let from = 0
      for (let at = chunk.indexOf(newline); at !== -1; at = chunk.indexOf(newline, from)) {
        finish(chunk.subarray(from, at))
        from = at + 1
      }
      // Copied: the chunk may be a slice of a pool that its owner reuses.
      if (from < chunk.length) hold(Buffer.from(chunk.subarray(from)))
    },

    /** Passes on the text after the last newline, if any. */
    end(): void {
      if (heldBytes > 0) finish(Buffer.alloc(0))
    }
  }
}

/** Yields the lines of a file, or of its contents, in the pieces in which they are read. */
export async function* linesOf(chunks: AsyncIterable<unknown> | Iterable<Buffer>): AsyncGenerator<string[]> {
  let lines: string[] = []
  const splitter = createLineSplitter(line => lines.push(line))
  for await (const chunk of chunks) {
    splitter.push(chunk as Buffer)
    yield lines
    lines = []
  }
  splitter.end()
  yield lines
}

/** Moves a cut back to the start of a UTF-8 sequence, by at most the 3 bytes that can follow its first. */
function startOfCharacter(bytes: Buffer, cut: number): number {
  let at = cut
  while (at > cut - 3 && ((bytes[at] as number) & 0xc0) === 0x80) at--
  return at
}

/**
 * Returns a count with its noun: `1 error`, `2 errors`. `plural` is for nouns whose plural does not just add an "s".
 */
export function countOf(number: number, noun: string, plural = `${noun}s`): string {
  return `${number} ${number === 1 ? noun : plural}`
}

/** Returns a whole number with commas: `10,000`. The formatter of the runtime takes 15 ms when it is first used. */
export function grouped(number: number): string {
  if (number < 1000) return String(number)
  return `${grouped(Math.floor(number / 1000))},${String(number % 1000).padStart(3, '0')}`
}

/** Formats milliseconds as the `duration` of a deployment record: seconds with the suffix `s` (§2.2). */
export function formatSeconds(ms: number): string {
  return `${(Math.max(0, ms) / 1000).toFixed(2)}s`
}

/** Returns the known word that is closest to `word`, or undefined if none is close enough. */
export function closest(word: string, known: readonly string[]): string | undefined {
  let best: string | undefined
  let bestDistance = Math.max(1, Math.floor(word.replace(/^-+/, '').length / 3)) + 1
  for (const candidate of known) {
    const distance = editDistance(word.toLowerCase(), candidate.toLowerCase())
    if (distance < bestDistance) {
      best = candidate
      bestDistance = distance
    }
  }
  return best ?? (word.length > 3 ? known.find(candidate => candidate.startsWith(word)) : undefined)
}

/** Counts insertions, deletions, substitutions and swaps of neighbours (optimal string alignment). */
function editDistance(a: string, b: string): number {
  let beforeLast: number[] = []
  let last = Array.from({ length: b.length + 1 }, (_, column) => column)
  for (let row = 1; row <= a.length; row++) {
    const current = [row]
    for (let column = 1; column <= b.length; column++) {
      const same = a[row - 1] === b[column - 1] ? 0 : 1
      let cost = Math.min(at(last, column) + 1, at(current, column - 1) + 1, at(last, column - 1) + same)
      if (row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1]) {
        cost = Math.min(cost, at(beforeLast, column - 2) + 1)
      }
      current.push(cost)
    }
    beforeLast = last
    last = current
  }
  return at(last, b.length)
}

function at(row: number[], column: number): number {
  return row[column] as number
}

/** Returns the URL, or null if the text is none. (`URL.canParse` does not exist before Node 18.17.) */
export function parseUrl(text: string): URL | null {
  try {
    return new URL(text)
  } catch {
    return null
  }
}

/** Parses the URL of a receiver. Returns null if it is not an HTTP URL. */
export function parseHttpUrl(text: string): URL | null {
  const url = parseUrl(text)
  return url?.protocol === 'http:' || url?.protocol === 'https:' ? url : null
}

/** Whether a text contains nothing but white space. */
export function isBlank(text: string | undefined): boolean {
  return text === undefined || text.trim() === ''
}

/** Returns the items of a list, which commas, spaces or line ends separate. */
export function itemsOf(value: string): string[] {
  return value.split(/[\s,]+/).filter(item => item !== '')
}
