/*
 * The pattern of a search, prepared so that whole blocks can be searched instead of single lines.
 *
 * A regular expression is meant for one line. To run over a block of lines, it is rewritten so that nothing in it
 * matches a line end (`\s` becomes `[^\S\r\n]`, `[^"]` becomes `[^\r\n"]`, …), and `^` and `$` match at line ends
 * (flag `m`). Then it matches in a block exactly what it would match in the line alone, look-arounds included. Each
 * hit is still checked on its own line.
 *
 * The rewriting also finds a text that every match must contain. Where that text does not occur, the expression need
 * not run.
 *
 * Most expressions can run over bytes, each byte as one character (latin1), which saves the decoding. This works if
 * the expression only asks whether a non-ASCII character exists. Then it may match more lines than it should.
 */
import { invalid } from '../../../base/errors.js'

/** What the user searches for. */
export interface PatternQuery {
  q: string
  isRegex: boolean
  ignoresCase: boolean
  /** Whether control sequences, such as colours, are part of the lines. Default: they are left out. */
  isRaw?: boolean
}

/** A compiled pattern. */
export interface Pattern {
  /** A text that every hit contains, in its original case. Empty if none is known. */
  literal: string
  /** Whether every line that contains `literal` is a hit, so nothing else need be checked. */
  isLiteral: boolean
  ignoresCase: boolean
  isRaw: boolean
  /** The expression for a block and for one line. */
  source: string
  flags: string
  /** The expression for the bytes of a block; it misses no hit. Null if there is none. */
  bytewise: string | null
}

/** Maximum length of a query in characters. */
const maxQueryLength = 1_000

/** Compiles a query. Refuses an invalid one: 400 with the field `q`. */
export function compilePattern({ q, isRegex, ignoresCase, isRaw = false }: PatternQuery): Pattern {
  if (q === '') throw invalid('q', '"q" is missing: enter the text or the regular expression to search for')
  if (q.length > maxQueryLength) {
    throw invalid('q', `"q" is too long: ${q.length} characters, at most ${maxQueryLength}`)
  }
  if (!isRegex && /[\r\n]/.test(q)) throw invalid('q', '"q" contains a line break: each line is searched separately')
  if (!isRegex) return { ...literalPattern(q, ignoresCase), isRaw }
  const isUnicode = /\\[pPu]\{|[\ud800-\udbff]/.test(q)
  const flags = `${ignoresCase ? 'mi' : 'm'}${isUnicode ? 'u' : ''}`
  check(q, flags)
  const { source, bytewise, literal, isLiteral } = rewrite(q, flags)
  // With both flags, a letter may match a non-ASCII one (the Kelvin sign is a k), so no text is certain.
  const isCertain = !ignoresCase || (isCaseSimple(literal) && !isUnicode)
  const text = isCertain ? literal : ''
  return { source, flags, bytewise, ignoresCase, isRaw, literal: text, isLiteral: isLiteral && isCertain }
}

function literalPattern(q: string, ignoresCase: boolean): Omit<Pattern, 'isRaw'> {
  const isCertain = !ignoresCase || isCaseSimple(q)
  return {
    source: escaped(q),
    flags: ignoresCase ? 'mi' : 'm',
    bytewise: isCertain ? escaped(bytesAsText(q)) : null,
    ignoresCase,
    literal: isCertain ? q : '',
    isLiteral: isCertain
  }
}

function escaped(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&')
}

function bytesAsText(text: string): string {
  return Buffer.from(text).toString('latin1')
}

function check(q: string, flags: string): void {
  try {
    new RegExp(q, flags)
  } catch (error) {
    const reason = (error as Error).message.replace(/^Invalid regular expression: /, '')
    throw invalid('q', `"q" is not a valid regular expression: ${reason}`)
  }
}

/** Whether only ASCII letters of the text have two cases: true for ASCII, Chinese, Japanese and Korean. */
function isCaseSimple(text: string): boolean {
  return /^[\0-\x7f\u2e80-\ua4cf\uac00-\ud7a3]*$/.test(text)
}

/** One token of an expression. */
interface Token {
  kind: 'character' | 'atom' | 'assertion' | 'open' | 'close' | 'or' | 'quantifier'
  /** Its text in the rewritten expression. */
  text: string
  /** For a `character`: the character it matches. For a `quantifier`: whether it makes its atom optional. */
  means: string
  /** Which characters an atom matches: only ASCII, also all others, or unknown. */
  breadth?: 'ascii' | 'open' | 'unknown'
}

const tokens =
  /\\(?:u\{[^}]*\}|u[\da-fA-F]{4}|x[\da-fA-F]{2}|c[A-Za-z]|[pP]\{[^}]*\}|k<[^>]*>|\d+|[^])|\[(?:\\[^]|[^\]\\])*\]|\((?:\?(?:[:=!]|<[=!]|<[^>]*>|[a-z-]*:))?|[*+?]\??|\{\d+(?:,\d*)?\}\??|[^]/gu

function rewrite(
  q: string,
  flags: string
): { source: string; bytewise: string | null; literal: string; isLiteral: boolean } {
  const read = withoutLead([...q.matchAll(tokens)].map(([text]) => tokenOf(text, flags)))
  return { source: read.map(({ text }) => text).join(''), bytewise: bytewiseOf(read, flags), ...requiredLiteral(read) }
}

/**
 * Removes a repeated atom at the start of an expression. It does not change which lines match (`.*x` matches where `x`
 * does, `.+x` where `.x` does), but it would be tried from each position of a line to its end.
 */
function withoutLead(read: Token[]): Token[] {
  const [first, second, ...rest] = read
  if (first === undefined || (first.kind !== 'atom' && first.kind !== 'character') || /^\\(k|\d)/.test(first.text))
    return read
  if (second?.text.startsWith('*')) return withoutLead(rest)
  return second?.text.startsWith('+') ? [first, ...rest] : read
}

/**
 * Returns the expression for bytes, where a non-ASCII character is several bytes. Null if there is none: with a
 * look-around it could match too few lines instead of too many.
 */
function bytewiseOf(read: Token[], flags: string): string | null {
  if (flags.includes('u')) return null
  let source = ''
  for (const [index, { kind, text, means, breadth }] of read.entries()) {
    if (kind === 'open' && /^\(\?(?!:|<[^=!])/.test(text)) return null
    const isRepeated = /^[*+]/.test(read[index + 1]?.text ?? '') && read[index + 1]?.kind === 'quantifier'
    if (kind === 'atom' && breadth !== 'ascii' && !(breadth === 'open' && isRepeated)) return null
    const isOutside = kind === 'character' && /[^\0-\x7f]/.test(means)
    if (isOutside && flags.includes('i') && !isCaseSimple(means)) return null
    source += isOutside ? `(?:${bytesAsText(means)})` : text
  }
  return source
}

function tokenOf(text: string, flags: string): Token {
  const atom = (rewritten: string, breadth: Token['breadth']): Token => ({
    kind: 'atom',
    text: rewritten,
    means: '',
    breadth
  })
  if (text.startsWith('[') && text.length > 1) return atom(classWithoutNewline(text, flags), breadthOfClass(text))
  if (text.startsWith('\\') && text.length > 1) return escapeToken(text, flags)
  if (text.startsWith('(')) return { kind: 'open', text, means: '' }
  switch (text[0]) {
    case ')':
      return { kind: 'close', text, means: '' }
    case '|':
      return { kind: 'or', text, means: '' }
    case '^':
    case '$':
      return { kind: 'assertion', text, means: '' }
    case '.':
      return atom(text, 'open')
    case '\r':
    case '\n':
      return atom('[]', 'ascii')
    case '*':
    case '?':
      return { kind: 'quantifier', text, means: 'optional' }
    case '+':
      return { kind: 'quantifier', text, means: '' }
    case '{':
      if (text.length > 1) return { kind: 'quantifier', text, means: /^\{0/.test(text) ? 'optional' : '' }
  }
  return { kind: 'character', text, means: text }
}

const withoutNewline: Record<string, string> = { '\\s': '[^\\S\\r\\n]', '\\W': '[^\\w\\r\\n]', '\\D': '[^\\d\\r\\n]' }

function escapeToken(text: string, flags: string): Token {
  if (/^\\[bB]/.test(text)) return { kind: 'assertion', text, means: '' }
  const plain = withoutNewline[text]
  // A byte may equal a non-ASCII space even if its character is not one.
  if (plain !== undefined) return { kind: 'atom', text: plain, means: '', breadth: text === '\\s' ? 'unknown' : 'open' }
  if (text === '\\d' || text === '\\w') return { kind: 'atom', text, means: '', breadth: 'ascii' }
  // An escaped punctuation character stands for itself.
  if (/^\\[^a-zA-Z0-9]/.test(text)) return { kind: 'character', text, means: text.slice(1) }
  if (text === '\\t') return { kind: 'character', text, means: '\t' }
  if (/^\\(k|\d)/.test(text)) return { kind: 'atom', text, means: '', breadth: 'unknown' }
  return { kind: 'atom', text: guarded(text, flags), means: '', breadth: 'unknown' }
}

function breadthOfClass(text: string): Token['breadth'] {
  if (!/^\[(?:[^\\\x80-\uffff]|\\[dwt]|\\[^a-zA-Z0-9\x80-\uffff])*\]$/.test(text)) return 'unknown'
  return text.startsWith('[^') ? 'open' : 'ascii'
}

function classWithoutNewline(text: string, flags: string): string {
  return text.startsWith('[^') ? `[^\\r\\n${text.slice(2)}` : guarded(text, flags)
}

/** Prevents an atom from matching a line end. */
function guarded(text: string, flags: string): string {
  const alone = new RegExp(`^(?:${text})$`, flags.replace('m', ''))
  return alone.test('\n') || alone.test('\r') ? `(?:(?![\\r\\n])${text})` : text
}

/** Returns the longest run of characters outside of groups, or none if there are alternatives. */
function requiredLiteral(read: Token[]): { literal: string; isLiteral: boolean } {
  const runs: string[] = []
  let run = ''
  let depth = 0
  const end = (): void => {
    if (run !== '') runs.push(run)
    run = ''
  }
  for (const [index, { kind, means }] of read.entries()) {
    if (kind === 'or' && depth === 0) return { literal: '', isLiteral: false }
    if (kind === 'open') depth++
    if (kind === 'close') depth--
    const next = read[index + 1]
    const isOptional = next?.kind === 'quantifier' && next.means === 'optional'
    if (kind === 'character' && depth === 0 && !isOptional) {
      run += means
      // A repeated character occurs at least once, but the next one need not follow it directly.
      if (next?.kind === 'quantifier') end()
    } else {
      end()
    }
  }
  end()
  const literal = runs.reduce((longest, one) => (one.length > longest.length ? one : longest), '')
  const isLiteral = read.every(({ kind }) => kind === 'character') && literal.length > 0
  return { literal, isLiteral }
}
