import { type CodeKind, type CodeLanguage, codeLanguages, insideTag } from './code-languages.js'
import { css, SvcElement } from '../element.js'
import { html, type Template } from '../../dom/html.js'
import { numberWords, t } from '../../words/t.js'
import { rowWindow } from './svc-rows.js'

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

/** Up to this many lines, all lines are on the page, so the browser's search finds everything and lines can wrap. */
export const allLines = 1500
const spareLines = 40
/** Height of a line; the sheet has the same value. */
const linePx = 20
/** Longer lines are cut off, because laying them out would take seconds. */
const shownCharacters = 4000

/**
 * A text with line numbers and colours. Properties: `text`; `language`, as the server names it. Attribute: `wrap`,
 * effective up to 1,500 lines, because longer texts need rows of equal height. Line numbers are never copied. Keys
 * while it has the focus: arrows, Page, Home and End scroll.
 */
export class SvcCode extends SvcElement {
  static readonly observedAttributes = ['wrap']

  static override sheet = css`
    svc-code {
      display: grid;
      grid-template: minmax(0, 1fr) / minmax(0, 1fr);
      background: var(--log-ground);
      color: var(--log-text);

      .scroll { overflow: auto; max-height: max(320px, calc(100dvh - 220px)); padding: 8px 0; outline-offset: -2px; }
      .space { position: relative; min-width: fit-content; }
      &[wrap] .space:not(.virtual) { min-width: 0; }
      .lines { min-width: 100%; width: max-content; }
      .line {
        display: block;
        padding: 0 16px 0 calc(var(--digits, 3ch) + 28px);
        font-family: var(--mono);
        font-size: var(--size-13);
        line-height: 20px;
        min-height: 20px;
        white-space: pre;
        tab-size: 4;
      }
      .line::before {
        content: attr(data-line);
        position: absolute;
        left: 0;
        width: calc(var(--digits, 3ch) + 12px);
        color: var(--muted);
        text-align: right;
      }
      &[wrap] .space:not(.virtual) > .lines { width: auto; }
      &[wrap] .space:not(.virtual) > .lines .line { white-space: pre-wrap; overflow-wrap: anywhere; }
      .more { color: var(--muted); font-family: var(--sans); user-select: none; }
      .comment { color: var(--muted); font-style: italic; }
      .keyword { color: var(--ansi-5); }
      .string { color: var(--ansi-2); }
      .number { color: var(--ansi-3); }
      .name { color: var(--ansi-4); }
      .strong { color: var(--ansi-4); font-weight: 700; }
    }
  `

  #text = ''
  #language = 'plaintext'
  #code: CodeLines | null = null
  #shown: { first: number; end: number } | null = null
  #isFrameAsked = false

  get text(): string {
    return this.#text
  }

  set text(text: string) {
    if (text === this.#text && this.#code !== null) return
    this.#text = text
    this.#forget()
  }

  get language(): string {
    return this.#language
  }

  set language(language: string) {
    if (language === this.#language) return
    this.#language = language
    this.#forget()
  }

  protected override connected(): void {
    const observer = new ResizeObserver(() => this.#askFrame())
    observer.observe(this)
    this.signal.addEventListener('abort', () => observer.disconnect())
  }

  protected override view(): Template {
    return html`
      <div class="scroll" tabindex="0" role="region" aria-label="${t('File contents')}"
        @scroll="${() => this.#askFrame()}">
        <div class="space"><div class="lines"></div></div>
      </div>`
  }

  protected override rendered(): void {
    this.#draw()
  }

  #forget(): void {
    this.#code = null
    this.#shown = null
    this.update()
  }

  #askFrame(): void {
    if (this.#isFrameAsked) return
    this.#isFrameAsked = true
    requestAnimationFrame(() => {
      this.#isFrameAsked = false
      if (this.isConnected) this.#draw()
    })
  }

  #draw(): void {
    const scroll = this.querySelector<HTMLElement>('.scroll')
    if (scroll === null) return
    const code = (this.#code ??= readCode(this.#text, this.#language))
    const space = scroll.firstElementChild as HTMLElement
    const lines = space.firstElementChild as HTMLElement
    const isVirtual = code.count > allLines
    const window = isVirtual
      ? rowWindow({
          count: code.count,
          rowPx: linePx,
          topPx: -scroll.scrollTop,
          seenPx: scroll.clientHeight,
          spareRows: spareLines
        })
      : { first: 0, end: code.count }
    if (this.#shown?.first === window.first && this.#shown.end === window.end) return
    const isNew = this.#shown === null
    this.#shown = window
    scroll.style.setProperty('--digits', `${Math.max(3, String(code.count).length)}ch`)
    space.classList.toggle('virtual', isVirtual)
    space.style.height = isVirtual ? `${code.count * linePx}px` : ''
    lines.style.translate = isVirtual ? `0 ${window.first * linePx}px` : ''
    // The longest line is rarely visible, and the width must not jump.
    lines.style.minWidth = isVirtual ? `${Math.min(code.longest, shownCharacters)}ch` : ''
    lines.replaceChildren(...range(window).map(line => lineNode(code, line)))
    if (isNew) scroll.scrollTop = 0
  }
}

const range = ({ first, end }: { first: number; end: number }): number[] =>
  Array.from({ length: end - first }, (_, index) => first + index)

function lineNode(code: CodeLines, line: number): HTMLElement {
  const node = document.createElement('span')
  node.className = 'line'
  node.dataset['line'] = String(line + 1)
  let room = shownCharacters
  let cut = 0
  for (const { text, kind } of code.spans(line)) {
    const shown = text.slice(0, Math.max(0, room))
    room -= text.length
    cut += text.length - shown.length
    if (shown === '') continue
    if (kind === null) node.append(shown)
    else node.append(Object.assign(document.createElement('span'), { className: kind, textContent: shown }))
  }
  if (cut > 0) {
    const words = t(cut === 1 ? ' … and 1 more character' : ' … and {count} more characters', {
      count: numberWords(cut)
    })
    node.append(Object.assign(document.createElement('span'), { className: 'more', textContent: words }))
  }
  return node
}
