import { css, SvcElement } from '../../dom/element.js'
import { html, type Template } from '../../dom/html.js'
import { numberWords, t } from '../../words/t.js'
import { readCode, type CodeLines } from './code-tokens.js'
import { rowWindow } from './row-window.js'

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
