import { codeLanguages, insideTag, type CodeKind, type CodeLanguage } from './code-languages.js'

/* Cuts a text into lines, and each line into spans of one kind. Pure. The result is text, never markup. */

/** A piece of a line with its kind. */
export interface CodeSpan {
  text: string
  /** Null for plain text. */
  kind: CodeKind | null
}

/** A text whose lines are cut when they are requested. */
export interface CodeLines {
  readonly count: number
  /** Length of the longest line in characters. */
  readonly longest: number
  /** Returns the spans of a line; lines count from 0. */
  spans(line: number): CodeSpan[]
}

interface Token {
  from: number
  to: number
  kind: CodeKind
}

/** Reads a text in a language that the server names. An unknown language is read as plain text. */
export function readCode(text: string, language: string): CodeLines {
  const starts = lineStarts(text)
  const tokens = tokensOf(text, language)
  let longest = 0
  for (const [line, start] of starts.entries()) longest = Math.max(longest, endOf(line) - start)

  function endOf(line: number): number {
    const next = starts[line + 1]
    const end = next === undefined ? text.length : next - 1
    return text[end - 1] === '\r' && end > (starts[line] as number) ? end - 1 : end
  }

  return {
    count: starts.length,
    longest,
    spans(line) {
      const spans: CodeSpan[] = []
      const end = endOf(line)
      let at = starts[line] as number
      for (let index = firstEndingAfter(tokens, at); at < end; index++) {
        const token = tokens[index]
        const from = Math.min(end, token?.from ?? end)
        if (from > at) spans.push({ text: text.slice(at, from), kind: null })
        at = Math.max(at, from)
        if (token === undefined || at >= end) break
        const to = Math.min(end, token.to)
        spans.push({ text: text.slice(at, to), kind: token.kind })
        at = to
      }
      return spans
    }
  }
}

/** Returns the offset of each line. An empty last line after the last line end does not count. */
function lineStarts(text: string): number[] {
  const starts = [0]
  for (let at = text.indexOf('\n'); at !== -1 && at + 1 < text.length; at = text.indexOf('\n', at + 1))
    starts.push(at + 1)
  return starts
}

function firstEndingAfter(tokens: readonly Token[], offset: number): number {
  let low = 0
  let high = tokens.length
  while (low < high) {
    const middle = (low + high) >> 1
    if ((tokens[middle] as Token).to > offset) high = middle
    else low = middle + 1
  }
  return low
}

function tokensOf(text: string, name: string): Token[] {
  const language = Object.hasOwn(codeLanguages, name) ? codeLanguages[name] : undefined
  if (language === undefined) return []
  return language === codeLanguages['html'] ? markupTokens(text) : scan(text, language)
}

const matchers = new WeakMap<CodeLanguage, RegExp>()

/** Returns all patterns of a language as one expression with one group per rule; the last group is the words. */
function matcherOf(language: CodeLanguage): RegExp {
  const known = matchers.get(language)
  if (known !== undefined) return known
  const sources = [...language.rules.map(({ pattern }) => pattern.source), language.word.source]
  const matcher = new RegExp(sources.map(source => `(${source})`).join('|'), 'g')
  matchers.set(language, matcher)
  return matcher
}

/** Finds the tokens between two offsets from left to right. Skips a match whose rule may not begin there. */
function scan(whole: string, language: CodeLanguage, part: Partial<Pick<Token, 'from' | 'to'>> = {}): Token[] {
  const { from: offset = 0, to: end = whole.length } = part
  const text = offset === 0 && end === whole.length ? whole : whole.slice(offset, end)
  const matcher = new RegExp(matcherOf(language), 'g')
  const tokens: Token[] = []
  for (let found = matcher.exec(text); found !== null; found = matcher.exec(text)) {
    const group = found.findIndex((value, index) => index > 0 && value !== undefined) - 1
    const rule = language.rules[group]
    const [value] = found
    if (rule?.after !== undefined && !mayBegin(text, found.index, rule.after)) {
      matcher.lastIndex = found.index + skipped(value)
      continue
    }
    const kind = rule === undefined ? language.words.get(language.ignoresCase ? value.toLowerCase() : value) : rule.kind
    if (kind !== undefined) tokens.push({ from: offset + found.index, to: offset + found.index + value.length, kind })
    if (value === '') matcher.lastIndex++
  }
  return tokens
}

/** Returns how many characters to skip: a whole word, or one character of anything else. */
function skipped(value: string): number {
  return /^[\w$]+/.exec(value)?.[0].length ?? 1
}

/** Reports whether a rule may begin at `index` (see `CodeRule.after`). */
function mayBegin(text: string, index: number, after: string): boolean {
  if (index === 0) return true
  const isSpace = (character: string): boolean =>
    character === ' ' || character === '\t' || (character === '\n' && !after.includes(character))
  let at = index - 1
  while (at >= 0 && isSpace(text[at] as string)) at--
  return at < 0 || after.includes(text[at] as string)
}

const markup =
  /(<!--[^]*?(?:-->|$))|(<!\[CDATA\[[^]*?(?:\]\]>|$))|<[/?!]?([A-Za-z][^\s>/]*)(?:[^>"']|"[^"]*"|'[^']*')*>?/g

/** Returns the tokens of markup: those inside tags, and those of scripts and styles in their own language. */
function markupTokens(text: string): Token[] {
  const outside = codeLanguages['html'] as CodeLanguage
  const tokens: Token[] = []
  const matcher = new RegExp(markup, 'g')
  let at = 0
  for (let found = matcher.exec(text); found !== null; found = matcher.exec(text)) {
    const [whole, comment, data, name] = found
    const from = found.index
    const to = from + whole.length
    tokens.push(...scan(text, outside, { from: at, to: from }))
    at = to
    if (comment !== undefined) tokens.push({ from, to, kind: 'comment' })
    else if (data !== undefined) tokens.push({ from, to, kind: 'string' })
    else tokens.push(...scan(text, insideTag, { from, to }))
    const inner = whole.startsWith('</') || whole.endsWith('/>') ? undefined : embedded[name?.toLowerCase() ?? '']
    if (inner === undefined) continue
    const closing = inner.end
    closing.lastIndex = to
    at = closing.exec(text)?.index ?? text.length
    tokens.push(...scan(text, inner.language, { from: to, to: at }))
    matcher.lastIndex = at
  }
  tokens.push(...scan(text, outside, { from: at }))
  return tokens
}

const embedded: Readonly<Record<string, { language: CodeLanguage; end: RegExp }>> = {
  script: { language: codeLanguages['javascript'] as CodeLanguage, end: /<\/script/gi },
  style: { language: codeLanguages['css'] as CodeLanguage, end: /<\/style/gi }
}
