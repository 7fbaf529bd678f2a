import type { OutputLine } from '../../lib/model/deployment.js'
import { css } from '../dom/css.js'
import { SvcElement } from '../dom/element.js'
import { html } from '../dom/html.js'
import type { Template } from '../dom/html.js'
import type { Output } from '../state/output.js'
import { stripAnsi } from './ansi.js'
import { icon } from './icon.js'
import { lineNode } from './log-line.js'
import { cellsOf, createRowIndex } from './log-rows.js'
import type { RowIndex } from './log-rows.js'
import { createLogStyles } from './log-styles.js'
import { copyText } from './svc-copy.js'
import { countWords } from '../words/t.js'

/** The reader asks for the whole output as a file. */
export class DownloadEvent extends Event {
  constructor() {
    super('outputdownload', { bubbles: true })
  }
}

declare global {
  interface HTMLElementEventMap {
    outputdownload: DownloadEvent
  }
}

/** Up to this many lines all are on the page, so that the browser's own search and selection see everything. */
const allLines = 1000
/** Lines kept on the page above and below what is seen. */
const spareLines = 60
const timeColumns = 14
/** Distance from the end within which the reader counts as being there. */
const endPx = 8

/**
 * The output of a deployment, live. Property `output`. Attributes: `wrap`, `times` (switched by the reader too),
 * `downloadable` (offers the whole as a file). Event `outputdownload`. Keys, while the text has the focus: the arrows,
 * Page and Home scroll, End follows again.
 */
export class SvcLog extends SvcElement {
  static readonly observedAttributes = ['wrap', 'times', 'downloadable']

  static override sheet = css`
    svc-log {
      position: relative;
      display: grid;
      grid-template: auto minmax(0, 1fr) / minmax(0, 1fr);
      overflow: clip;

      .bar {
        display: flex;
        flex-wrap: wrap;
        align-items: center;
        gap: 4px;
        padding: 6px 8px 6px 16px;
        border-bottom: 1px solid var(--line);
      }

      .bar h2 { flex: 1; min-width: 100px; font-size: var(--size-14); }
      .bar button { padding-inline: 10px; font-size: var(--size-13); }
      .bar button[aria-pressed='true'] { background: var(--accent-quiet); color: var(--accent); }

      /* The region has its own name; on a phone the switches need the line. */
      @media (max-width: 719px) { .bar { padding-left: 8px; } .bar h2 { display: none; } }

      .scroll {
        min-height: 160px;
        max-height: min(70dvh, 760px);
        overflow: auto;
        overscroll-behavior-y: contain;
        padding: 10px 0;
        background: var(--log-ground);
        border-radius: 0 0 7px 7px;
        color: var(--log-text);
        font: var(--size-12) / 1.4 var(--mono);
        contain: content;
      }

      .scroll:focus-visible { outline-offset: -2px; }
      .space { position: relative; }
      .lines { position: absolute; top: 0; left: 0; min-width: 100%; }
      .line { display: flex; min-height: 1.4em; padding-inline: 16px; white-space: pre; }
      &[wrap] .line { white-space: pre-wrap; word-break: break-all; }
      &[wrap] .lines { right: 0; }
      .line:hover { background: var(--hover); }
      .line time { flex: none; width: 14ch; color: var(--muted); user-select: none; }
      .line > span { min-width: 0; tab-size: 8; }
      .ruler { position: absolute; visibility: hidden; white-space: pre; }
      .none { padding: 0 16px; color: var(--muted); font-family: var(--sans); font-size: var(--size-13); }

      .resume {
        position: absolute;
        left: 50%;
        bottom: 16px;
        translate: -50%;
        border-radius: 99px;
        border-color: transparent;
        box-shadow: var(--float);
      }

      .bold { font-weight: 700; }
      .dim { opacity: 0.75; }
      .italic { font-style: italic; }
      .underline { text-decoration: underline; }
      .struck { text-decoration: line-through; }
      .underline.struck { text-decoration: underline line-through; }
    }
  `

  #output: Output | undefined
  #detach = new AbortController()
  #isFollowing = true
  #unseenLines = 0
  #knownEnd = 0
  #copied = false
  #lastTop = 0
  #isFrameAsked = false

  /** By a line's number since the start; rows by its place among those that are kept. */
  #styles = createLogStyles()
  #rows: RowIndex = createRowIndex(null)
  #rowsFrom = 0
  #columns: number | null = null
  #lineHeightPx = 0
  #onPage = new Map<number, HTMLElement>()

  get output(): Output | undefined {
    return this.#output
  }

  set output(output: Output | undefined) {
    if (output === this.#output) return
    this.#detach.abort()
    this.#detach = new AbortController()
    this.#output = output
    this.#isFollowing = true
    this.#unseenLines = 0
    this.#knownEnd = 0
    this.#styles = createLogStyles()
    this.#measure(true)
    output?.addEventListener('change', () => this.#changed(), { signal: this.#detach.signal })
    this.update()
  }

  protected override connected(): void {
    const observer = new ResizeObserver(() => {
      this.#measure(false)
      this.#askFrame()
    })
    observer.observe(this)
    this.signal.addEventListener('abort', () => observer.disconnect())
  }

  protected override view(): Template {
    const output = this.#output
    const dropped = output?.droppedLines ?? 0
    const pressed = (isOn: boolean): string => (isOn ? 'true' : 'false')
    const isEmpty = output === undefined || output.lines.length === 0
    return html`
      <div class="bar">
        <h2>Output</h2>
        <button type="button" class="quiet" aria-pressed="${pressed(this.hasAttribute('wrap'))}"
          @click="${() => this.#switch('wrap')}">Wrap</button>
        <button type="button" class="quiet" aria-pressed="${pressed(this.hasAttribute('times'))}"
          @click="${() => this.#switch('times')}">Times</button>
        <button type="button" class="quiet" @click="${() => void this.#copy()}">
          ${icon(this.#copied ? 'check' : 'copy')}<span aria-live="polite">${this.#copied ? 'Copied' : 'Copy'}</span>
        </button>
        ${this.hasAttribute('downloadable')
          ? html`
            <button type="button" class="quiet" @click="${() => this.dispatchEvent(new DownloadEvent())}">
              ${icon('download')}<span>Download</span>
            </button>`
          : null}
      </div>
      <div class="scroll" tabindex="0" role="region" aria-label="Output"
        @scroll="${(event: Event) => this.#scrolled(event.currentTarget as HTMLElement)}"
        @keydown="${(event: Event) => this.#key(event as KeyboardEvent)}">
        ${dropped === 0 ? null : html`<p class="none">${countWords(dropped, 'earlier line')} left out here.</p>`}
        ${isEmpty ? html`<p class="none">Nothing written yet.</p>` : null}
        <div class="space"><div class="lines"></div></div>
        <span class="ruler" aria-hidden="true">${'0'.repeat(100)}</span>
      </div>
      ${this.#isFollowing || this.#unseenLines === 0
        ? null
        : html`
          <button type="button" class="primary resume" @click="${() => this.#follow()}">
            ${icon('down')}<span>${countWords(this.#unseenLines, 'new line')}</span>
          </button>`}`
  }

  protected override rendered(): void {
    this.#measure(false)
    this.#askFrame()
  }

  override attributeChangedCallback(name: string, before: string | null, now: string | null): void {
    super.attributeChangedCallback(name, before, now)
    if (this.isConnected && before !== now) this.#measure(true)
  }

  #switch(name: 'wrap' | 'times'): void {
    this.toggleAttribute(name)
  }

  #changed(): void {
    const output = this.#output as Output
    const end = output.droppedLines + output.lines.length
    if (!this.#isFollowing) this.#unseenLines += end - this.#knownEnd
    const wasEmpty = this.#knownEnd === 0
    this.#knownEnd = end
    if (wasEmpty || !this.#isFollowing || output.droppedLines !== this.#rowsFrom) this.update()
    this.#askFrame()
  }

  #askFrame(): void {
    if (this.#isFrameAsked) return
    this.#isFrameAsked = true
    requestAnimationFrame(() => {
      this.#isFrameAsked = false
      if (this.isConnected) this.#draw()
    })
  }

  get #scroll(): HTMLElement | null {
    return this.querySelector('.scroll')
  }

  /** Takes the size of a character; where that, the width or a switch has changed, rows are counted anew. */
  #measure(isForced: boolean): void {
    const scroll = this.#scroll
    const ruler = scroll?.querySelector('.ruler')
    let columns: number | null = null
    if (scroll !== null && ruler instanceof HTMLElement) {
      const box = ruler.getBoundingClientRect()
      this.#lineHeightPx = box.height
      const taken = 32 / (box.width / 100) + (this.hasAttribute('times') ? timeColumns : 0)
      if (this.hasAttribute('wrap')) columns = Math.max(1, Math.floor(scroll.clientWidth / (box.width / 100) - taken))
    }
    if (!isForced && columns === this.#columns) return
    this.#columns = columns
    this.#rows = createRowIndex(columns)
    this.#rowsFrom = this.#output?.droppedLines ?? 0
    for (const line of this.#onPage.values()) line.remove()
    this.#onPage.clear()
  }

  #draw(): void {
    const output = this.#output
    const scroll = this.#scroll
    if (output === undefined || scroll === null || this.#lineHeightPx === 0) return
    if (output.droppedLines !== this.#rowsFrom) this.#measure(true)
    this.#index(output)

    const space = scroll.querySelector('.space') as HTMLElement
    const lines = space.firstElementChild as HTMLElement
    // The reader's first move up may be seen here before its event is: it must not be undone.
    if (this.#isFollowing) this.#noticeMove(scroll)
    space.style.height = `${this.#rows.rows * this.#lineHeightPx}px`
    if (this.#isFollowing) {
      scroll.scrollTop = scroll.scrollHeight
      this.#lastTop = scroll.scrollTop
    }

    const count = output.lines.length
    let first = 0
    let end = count
    if (count > allLines) {
      const topRow = Math.floor((scroll.scrollTop - space.offsetTop) / this.#lineHeightPx)
      const seenRows = Math.ceil(scroll.clientHeight / this.#lineHeightPx)
      first = Math.max(0, this.#rows.lineAt(Math.max(0, topRow)) - spareLines)
      end = Math.min(count, this.#rows.lineAt(Math.max(0, topRow + seenRows)) + spareLines)
    }
    lines.style.translate = `0 ${this.#rows.rowOf(first) * this.#lineHeightPx}px`
    this.#place(output, lines, first, end)
  }

  /** Counts the rows and the styles of lines that are new. */
  #index(output: Output): void {
    const unread = output.droppedLines - this.#styles.lines
    if (unread > 0) this.#styles.skip(unread)
    for (let index = this.#rows.lines; index < output.lines.length; index++) {
      const { text } = output.lines[index] as OutputLine
      this.#rows.push(cellsOf(stripAnsi(text)))
      if (output.droppedLines + index === this.#styles.lines) this.#styles.push(text)
    }
  }

  /** Lines that stay keep their nodes, and with them the reader's selection. */
  #place(output: Output, lines: HTMLElement, first: number, end: number): void {
    const from = output.droppedLines + first
    const to = output.droppedLines + end
    for (const [number, node] of this.#onPage) {
      if (number >= from && number < to) continue
      node.remove()
      this.#onPage.delete(number)
    }
    const hasTime = this.hasAttribute('times')
    let next = lines.firstChild
    for (let number = from; number < to; number++) {
      const known = this.#onPage.get(number)
      if (known !== undefined && known === next) {
        next = known.nextSibling
        continue
      }
      const style = this.#styles.styleOf(number)
      const node = known ?? lineNode(output.lines[number - output.droppedLines] as OutputLine, { style, hasTime })
      this.#onPage.set(number, node)
      lines.insertBefore(node, next)
    }
  }

  #scrolled(scroll: HTMLElement): void {
    this.#noticeMove(scroll)
    this.#lastTop = scroll.scrollTop
    this.#askFrame()
  }

  /** Only the reader moves up; the end itself moves down while lines come. */
  #noticeMove(scroll: HTMLElement): void {
    const isAtEnd = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < endPx
    if (isAtEnd) this.#setFollowing(true)
    else if (scroll.scrollTop < this.#lastTop - 1) this.#setFollowing(false)
  }

  #setFollowing(isFollowing: boolean): void {
    if (isFollowing === this.#isFollowing) return
    this.#isFollowing = isFollowing
    this.#unseenLines = 0
    this.update()
  }

  #follow(): void {
    this.#setFollowing(true)
    this.#scroll?.focus({ preventScroll: true })
    this.#askFrame()
  }

  #key(event: KeyboardEvent): void {
    if (event.key === 'End') this.#follow()
  }

  async #copy(): Promise<void> {
    const lines = this.#output?.lines ?? []
    this.#copied = await copyText(lines.map(line => `${stripAnsi(line.text)}\n`).join(''))
    this.update()
    setTimeout(() => {
      this.#copied = false
      this.update()
    }, 1600)
  }
}
