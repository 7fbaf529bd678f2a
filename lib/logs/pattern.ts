/*
 * What a search looks for, made ready to be looked for in whole blocks instead of line by line.
 *
 * A regular expression is meant for one line. To be run over a block of lines it is rewritten so that nothing in it can
 * match a line end (`\s` becomes `[^\S\r\n]`, `[^"]` becomes `[^\r\n"]`, …) and `^` and `$` stand at the ends of lines (flag
 * `m`). It then sees of a block exactly what it would see of the line alone, look-arounds included; a hit is tried on
 * its line once more all the same.
 *
 * A text that every match must contain is found on the way: where it does not occur, the expression need not be run.
 *
 * Most expressions can be run over bytes as they are, each taken for a character (latin1), which saves the decoding: those
 * that ask nothing of a character outside of ASCII but that it is there. They may hit more lines than they should.
 */
import { invalid } from '../base/refusal.js'

export interface PatternQuery {
  q: string
  isRegex: boolean
  ignoresCase: boolean
}

export interface Pattern {
  /** A text that every hit contains; empty: none is known. In the case it was written in. */
  literal: string
  /** A line that contains the text is a hit: there is nothing else to look at. */
  isLiteral: boolean
  ignoresCase: boolean
  /** The expression for a block, and for one line. */
  source: string
  flags: string
  /** The expression for the bytes of a block: no line that hits is missed. null: there is none. */
  bytewise: string | null
}

/** Characters of a query. */
const maxQueryLength = 1_000

/** Refuses: 400 naming `q`. */
export function compilePattern({ q, isRegex, ignoresCase }: PatternQuery): Pattern {
  if (q === '') throw invalid('q', '"q" is missing: the text or the regular expression to search for is needed')
  if (q.length > maxQueryLength) {
    throw invalid('q', `"q" is too long: ${q.length} characters, at most ${maxQueryLength}`)
  }
  if (!isRegex && /[\r\n]/.test(q)) throw invalid('q', '"q" holds a line break: lines are searched one by one')
  if (!isRegex) return ofLiteral(q, ignoresCase)
  const isUnicode = /\\[pPu]\{|[\ud800-\udbff]/.test(q)
  const flags = `${ignoresCase ? 'mi' : 'm'}${isUnicode ? 'u' : ''}`
  check(q, flags)
  const { source, bytewise, literal, isLiteral } = rewrite(q, flags)
  // With both flags a letter may stand for one outside of ASCII (the sign of Kelvin is a k): no text is certain.
  const isCertain = !ignoresCase || (isCaseSimple(literal) && !isUnicode)
  return { source, flags, bytewise, ignoresCase, literal: isCertain ? literal : '', isLiteral: isLiteral && isCertain }
}

function ofLiteral(q: string, ignoresCase: boolean): Pattern {
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
    throw invalid('q', `"q" is no regular expression: ${reason}`)
  }
}

/** Whether only letters of ASCII have two cases: ASCII, Chinese, Japanese, Korean. */
function isCaseSimple(text: string): boolean {
  return /^[\0-\x7f\u2e80-\ua4cf\uac00-\ud7a3]*$/.test(text)
}

/** One piece of an expression as it was read. */
interface Token {
  kind: 'character' | 'atom' | 'assertion' | 'open' | 'close' | 'or' | 'quantifier'
  /** As it goes into the rewritten expression. */
  text: string
  /** What a `character` matches; of a `quantifier`: whether it lets its atom be absent. */
  means: string
  /** Of an atom: which characters it matches. Only those of ASCII, all others as well, or it is not known. */
  breadth?: 'ascii' | 'open' | 'unknown'
}

const tokens = /\\(?:u\{[^}]*\}|u[\da-fA-F]{4}|x[\da-fA-F]{2}|c[A-Za-z]|[pP]\{[^}]*\}|k<[^>]*>|\d+|[^])|\[(?:\\[^]|[^\]\\])*\]|\((?:\?(?:[:=!]|<[=!]|<[^>]*>|[a-z-]*:))?|[*+?]\??|\{\d+(?:,\d*)?\}\??|[^]/gu

function rewrite(
  q: string, flags: string
): { source: string; bytewise: string | null; literal: string; isLiteral: boolean } {
  const read = withoutLead([...q.matchAll(tokens)].map(([text]) => tokenOf(text, flags)))
  return { source: read.map(({ text }) => text).join(''), bytewise: bytewiseOf(read, flags), ...requiredLiteral(read) }
}

/**
 * What may be repeated at the start of an expression decides nothing (`.*x` hits where `x` does, `.+x` where `.x` does), but
 * would be tried from each place of a line to its end.
 */
function withoutLead(read: Token[]): Token[] {
  const [first, second, ...rest] = read
  if (first === undefined || (first.kind !== 'atom' && first.kind !== 'character') || /^\\(k|\d)/.test(first.text)) return read
  if (second?.text.startsWith('*')) return withoutLead(rest)
  return second?.text.startsWith('+') ? [first, ...rest] : read
}

/** Runs over bytes: a character outside of ASCII is several there. A look-around would turn hits too many into too few. */
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
  const atom = (rewritten: string, breadth: Token['breadth']): Token => ({ kind: 'atom', text: rewritten, means: '', breadth })
  if (text.startsWith('[') && text.length > 1) return atom(classWithoutNewline(text, flags), breadthOfClass(text))
  if (text.startsWith('\\') && text.length > 1) return escapeToken(text, flags)
  if (text.startsWith('(')) return { kind: 'open', text, means: '' }
  switch (text[0]) {
    case ')': return { kind: 'close', text, means: '' }
    case '|': return { kind: 'or', text, means: '' }
    case '^':
    case '$': return { kind: 'assertion', text, means: '' }
    case '.': return atom(text, 'open')
    case '\r':
    case '\n': return atom('[]', 'ascii')
    case '*':
    case '?': return { kind: 'quantifier', text, means: 'optional' }
    case '+': return { kind: 'quantifier', text, means: '' }
    case '{':
      if (text.length > 1) return { kind: 'quantifier', text, means: /^\{0/.test(text) ? 'optional' : '' }
  }
  return { kind: 'character', text, means: text }
}

const withoutNewline: Record<string, string> = { '\\s': '[^\\S\\r\\n]', '\\W': '[^\\w\\r\\n]', '\\D': '[^\\d\\r\\n]' }

function escapeToken(text: string, flags: string): Token {
  if (/^\\[bB]/.test(text)) return { kind: 'assertion', text, means: '' }
  const plain = withoutNewline[text]
  // A byte may be one of the spaces outside of ASCII, though its character is none.
  if (plain !== undefined) return { kind: 'atom', text: plain, means: '', breadth: text === '\\s' ? 'unknown' : 'open' }
  if (text === '\\d' || text === '\\w') return { kind: 'atom', text, means: '', breadth: 'ascii' }
  // An escaped sign is itself.
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

/** Whatever would match a line end is kept from it. */
function guarded(text: string, flags: string): string {
  const alone = new RegExp(`^(?:${text})$`, flags.replace('m', ''))
  return alone.test('\n') || alone.test('\r') ? `(?:(?![\\r\\n])${text})` : text
}

/** The longest run of characters outside of groups; none where there is a choice. */
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
      // What is repeated stands there once at least; what comes after it does not follow at once.
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
