/*
 * What a search looks for, made ready to be looked for in whole blocks instead of line by line.
 *
 * A regular expression is meant for one line. To be run over a block of lines it is rewritten so that nothing in it can
 * match a line end (`\s` becomes `[^\S\r\n]`, `[^"]` becomes `[^\r\n"]`, …) and `^` and `$` stand at the ends of lines (flag
 * `m`). It then sees of a block exactly what it would see of the line alone, look-arounds included; a hit is tried on
 * its line once more all the same.
 *
 * A text that every match must contain is found on the way: where it does not occur, the expression need not be run.
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
  const { source, literal, isLiteral } = rewrite(q, flags)
  // With both flags a letter may stand for one outside of ASCII (the sign of Kelvin is a k): no text is certain.
  const isCertain = !ignoresCase || (isAscii(literal) && !isUnicode)
  return { source, flags, ignoresCase, literal: isCertain ? literal : '', isLiteral: isLiteral && isCertain }
}

function ofLiteral(q: string, ignoresCase: boolean): Pattern {
  const source = q.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&')
  const isCertain = !ignoresCase || isAscii(q)
  return { source, flags: ignoresCase ? 'mi' : 'm', ignoresCase, literal: isCertain ? q : '', isLiteral: isCertain }
}

function check(q: string, flags: string): void {
  try {
    new RegExp(q, flags)
  } catch (error) {
    const reason = (error as Error).message.replace(/^Invalid regular expression: /, '')
    throw invalid('q', `"q" is no regular expression: ${reason}`)
  }
}

function isAscii(text: string): boolean {
  return /^[\0-\x7f]*$/.test(text)
}

/** One piece of an expression as it was read. */
interface Token {
  kind: 'character' | 'atom' | 'assertion' | 'open' | 'close' | 'or' | 'quantifier'
  /** As it goes into the rewritten expression. */
  text: string
  /** What a `character` matches; of a `quantifier`: whether it lets its atom be absent. */
  means: string
}

const tokens = /\\(?:u\{[^}]*\}|u[\da-fA-F]{4}|x[\da-fA-F]{2}|c[A-Za-z]|[pP]\{[^}]*\}|k<[^>]*>|\d+|[^])|\[(?:\\[^]|[^\]\\])*\]|\((?:\?(?:[:=!]|<[=!]|<[^>]*>|[a-z-]*:))?|[*+?]\??|\{\d+(?:,\d*)?\}\??|[^]/gu

function rewrite(q: string, flags: string): { source: string; literal: string; isLiteral: boolean } {
  const read = [...q.matchAll(tokens)].map(([text]) => tokenOf(text, flags))
  return { source: read.map(({ text }) => text).join(''), ...requiredLiteral(read) }
}

function tokenOf(text: string, flags: string): Token {
  const atom = (rewritten: string): Token => ({ kind: 'atom', text: rewritten, means: '' })
  if (text.startsWith('[') && text.length > 1) return atom(classWithoutNewline(text, flags))
  if (text.startsWith('\\') && text.length > 1) return escapeToken(text, flags)
  if (text.startsWith('(')) return { kind: 'open', text, means: '' }
  switch (text[0]) {
    case ')': return { kind: 'close', text, means: '' }
    case '|': return { kind: 'or', text, means: '' }
    case '^':
    case '$': return { kind: 'assertion', text, means: '' }
    case '.': return atom(text)
    case '\r':
    case '\n': return atom('[]')
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
  if (plain !== undefined) return { kind: 'atom', text: plain, means: '' }
  // An escaped sign is itself.
  if (/^\\[^a-zA-Z0-9]/.test(text)) return { kind: 'character', text, means: text.slice(1) }
  if (text === '\\t') return { kind: 'character', text, means: '\t' }
  if (/^\\(k|\d)/.test(text)) return { kind: 'atom', text, means: '' }
  return { kind: 'atom', text: guarded(text, flags), means: '' }
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
