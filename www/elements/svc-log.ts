import { SvcElement } from '../dom/element.js'
import { html, icon } from '../dom/html.js'
import type { Template } from '../dom/html.js'
import type { LogLine, LogText } from '../state/log-text.js'
import { plainFormat } from './log-format.js'
import type { LineFormat } from './log-format.js'
import { createLogPointer } from './log-pointer.js'
import type { LogPointer } from './log-pointer.js'
import { isEmpty, selectedLines, selectedText, wholeRange } from './log-selection.js'
import { logSheet } from './log-sheet.js'
import { LogView } from './log-view.js'
import { copyText } from './svc-copy.js'
import { SvcLogMenu } from './svc-log-menu.js'
import type { LogMenuEvent } from './svc-log-menu.js'
import { SvcLogTime } from './svc-log-time.js'
import { countWords, t } from '../words/t.js'

/** The reader asks for the whole as a file. */
export class DownloadEvent extends Event {
  constructor() {
    super('outputdownload', { bubbles: true })
  }
}

/** What is seen of the log has changed: other lines, or it follows the end now, or does not. */
export class LogViewEvent extends Event {
  readonly first: number
  readonly last: number
  readonly isFollowing: boolean

  constructor({ first, last, isFollowing }: { first: number; last: number; isFollowing: boolean }) {
    super('logview')
    this.first = first
    this.last = last
    this.isFollowing = isFollowing
  }
}

declare global {
  interface HTMLElementEventMap {
    outputdownload: DownloadEvent
    logview: LogViewEvent
  }
}

const timeColumns = 14
const sourceColumns = 16
const thanksMs = 1600

/**
 * A log, live: of a deployment, of a file, of several files. Properties `output`; `format`: how lines are shown;
 * `pattern`: what is marked; `sources`: the logs that lines are from; `tools`: more for its bar; `none`: what is said
 * where there is no line. Attributes: `wrap`,
 * `times` (switched by the reader too), `downloadable` (offers the whole as a file), `heading`. Events `outputdownload`,
 * `logview`. Keys, while the text has the focus: arrows, Page and Home scroll, End follows again, Ctrl-A selects all that
 * is held, Ctrl-C copies, Enter unfolds the line that is marked.
 */
export class SvcLog extends SvcElement {
  static readonly observedAttributes = ['wrap', 'times', 'downloadable', 'heading']
  static override sheet = logSheet
  /** Elements that it needs; whoever registers it registers them too. */
  static readonly parts = { 'svc-log-menu': SvcLogMenu, 'svc-log-time': SvcLogTime }

  #output: LogText | undefined
  #format: LineFormat = plainFormat
  #pattern: RegExp | null = null
  #sources: ReadonlyArray<{ words: string }> = []
  #tools: Template | null = null
  #none = t('Nothing written yet.')
  #detach = new AbortController()
  #view: LogView | null = null
  #pointer: LogPointer | null = null
  #copied = false
  #isAskingTime = false
  #shownState = ''
  /** A line that was to be shown before there was a view. */
  #wanted: { line: number; place: 'middle' | 'top' } | null = null

  get output(): LogText | undefined {
    return this.#output
  }

  set output(output: LogText | undefined) {
    if (output === this.#output) return
    this.#output = output
    this.#build()
  }

  set format(format: LineFormat) {
    if (format === this.#format) return
    this.#format = format
    this.#build()
  }

  get format(): LineFormat {
    return this.#format
  }

  set pattern(pattern: RegExp | null) {
    if (String(pattern) === String(this.#pattern)) return
    this.#pattern = pattern
    this.#build({ keepsPlace: true })
  }

  get pattern(): RegExp | null {
    return this.#pattern
  }

  set sources(sources: ReadonlyArray<{ words: string }>) {
    this.#sources = sources
    this.#build()
  }

  get sources(): ReadonlyArray<{ words: string }> {
    return this.#sources
  }

  set tools(tools: Template | null) {
    this.#tools = tools
    this.update()
  }

  get tools(): Template | null {
    return this.#tools
  }

  /** What is said where there is no line. */
  set none(none: string) {
    if (none === this.#none) return
    this.#none = none
    this.update()
  }

  get none(): string {
    return this.#none
  }

  /** Shows a line by its number, and marks it. */
  reveal(line: number, place: 'middle' | 'top' = 'middle'): void {
    this.#wanted = this.#view === null ? { line, place } : null
    this.#view?.reveal(line, place)
  }

  follow(): void {
    this.#view?.follow()
  }

  protected override connected(): void {
    const observer = new ResizeObserver(() => {
      this.#view?.measure()
      this.#view?.askFrame()
    })
    observer.observe(this)
    this.signal.addEventListener('abort', () => {
      observer.disconnect()
      this.#detach.abort()
      this.#view?.close()
      this.#view = null
    })
    this.listen(this, 'copy', event => this.#copyEvent(event as ClipboardEvent))
  }

  override attributeChangedCallback(name: string, before: string | null, now: string | null): void {
    super.attributeChangedCallback(name, before, now)
    if (before !== now && (name === 'wrap' || name === 'times')) this.#build({ keepsPlace: true })
  }

  protected override view(): Template {
    const output = this.#output
    const first = output?.lines[0]
    const heading = this.getAttribute('heading') ?? t('Output')
    const view = this.#view
    const pressed = (isOn: boolean): string => (isOn ? 'true' : 'false')
    return html`
      <div class="bar">
        <h2 class="cut" title="${heading}">${heading}</h2>
        ${this.#tools}
        <button type="button" class="quiet" aria-pressed="${pressed(this.hasAttribute('wrap'))}"
          @click="${() => this.toggleAttribute('wrap')}">${icon('wrap')}<span>${t('Wrap')}</span></button>
        ${first !== undefined && first.at === ''
          ? null
          : html`
            <button type="button" class="quiet" aria-pressed="${pressed(this.hasAttribute('times'))}"
              @click="${() => this.toggleAttribute('times')}">${t('Times')}</button>`}
        <button type="button" class="quiet" @click="${() => void this.#copy('plain')}">
          ${icon(this.#copied ? 'check' : 'copy')}
          <span aria-live="polite">${this.#copied ? t('Copied') : t('Copy')}</span>
        </button>
        ${this.hasAttribute('downloadable')
          ? html`
            <button type="button" class="quiet" @click="${() => this.dispatchEvent(new DownloadEvent())}">
              ${icon('download')}<span>${t('Download')}</span>
            </button>`
          : null}
        <svc-log-menu @logmenu="${(event: Event) => this.#menu(event as LogMenuEvent)}"></svc-log-menu>
        ${this.#isAskingTime && output !== undefined
          ? html`
            <svc-log-time .text="${output}" .nearMs="${Date.parse(first?.at ?? '')}"
              @logtime="${(event: Event) => this.reveal((event as Event & { line: number }).line)}"
              @logtimeclose="${() => this.#askTime(false)}"></svc-log-time>`
          : null}
      </div>
      <div class="scroll" tabindex="0" role="region" aria-label="${heading}"
        @scroll="${() => this.#view?.scrolled()}" @click="${(event: Event) => this.#clicked(event)}"
        @keydown="${(event: Event) => this.#key(event as KeyboardEvent)}">
        ${output === undefined ? null : headLine(output)}
        ${first === undefined ? html`<p class="none">${this.#none}</p>` : null}
        <div class="space"><div class="lines" translate="no"></div></div>
        <span class="ruler" aria-hidden="true">${'0'.repeat(100)}</span>
      </div>
      ${view === null || view.isFollowing || (view.unseenLines === 0 && output?.isAtEnd !== false)
        ? null
        : html`
          <button type="button" class="primary resume" @click="${() => this.#follow()}">
            ${icon('down')}
            <span>${view.unseenLines === 0 ? t('To the end') : countWords(view.unseenLines, 'new line')}</span>
          </button>`}`
  }

  protected override rendered(): void {
    if (this.#view === null && this.#output !== undefined) this.#build()
    this.#view?.askFrame()
  }

  /** A view for the text as it is to be shown now. */
  #build({ keepsPlace = false } = {}): void {
    const scroll = this.querySelector<HTMLElement>('.scroll')
    const text = this.#output
    const before = this.#view
    const place = keepsPlace && before !== null && !before.isFollowing ? before.seen.first : null
    before?.close()
    this.#view = null
    this.#detach.abort()
    this.#detach = new AbortController()
    if (scroll === null || text === undefined || !this.isConnected) return this.update()
    const hasTimes = this.hasAttribute('times')
    const view = new LogView({
      scroll,
      text,
      look: { format: this.#format, hasTimes, pattern: this.#pattern, sources: this.#sources },
      wraps: this.hasAttribute('wrap'),
      takenColumns: (hasTimes ? timeColumns : 0) + (this.#sources.length > 0 ? sourceColumns : 0),
      onChange: () => this.#viewChanged()
    })
    this.#view = view
    this.#pointer = createLogPointer({
      host: this,
      scroll,
      signal: this.#detach.signal,
      nodeOf: line => view.nodeOf(line),
      numberOf: node => view.numberOf(node),
      lineAt: clientY => view.lineAtHeight(clientY),
      shown: line => this.#shown(text.lines[line - text.firstNumber]),
      drawn: () => view.drawn,
      onChange: () => {}
    })
    text.addEventListener('change', () => view.askFrame(), { signal: this.#detach.signal })
    if (place !== null) view.reveal(place, 'top')
    if (this.#wanted !== null) this.reveal(this.#wanted.line, this.#wanted.place)
    view.askFrame()
    this.update()
  }

  #shown(line: LogLine | undefined): string {
    return line === undefined || line.isNote === true ? '' : this.#format.shown(line.text)
  }

  /** After each drawing; the bar is rendered only when it has something else to say. */
  #viewChanged(): void {
    const view = this.#view
    const output = this.#output
    if (view === null || output === undefined) return
    this.#pointer?.show()
    const state = JSON.stringify([
      view.isFollowing, view.unseenLines, output.isAtEnd, output.head, output.firstNumber, output.lines.length === 0
    ])
    if (state !== this.#shownState) {
      this.#shownState = state
      this.update()
    }
    this.dispatchEvent(new LogViewEvent({ ...view.seen, isFollowing: view.isFollowing }))
  }

  #follow(): void {
    this.#view?.follow()
    this.querySelector<HTMLElement>('.scroll')?.focus({ preventScroll: true })
  }

  #askTime(isAsking: boolean): void {
    this.#isAskingTime = isAsking
    this.update()
    if (!isAsking) this.querySelector<HTMLElement>('.scroll')?.focus({ preventScroll: true })
  }

  #menu({ choice }: LogMenuEvent): void {
    if (choice === 'copy_colors') void this.#copy('ansi')
    else if (choice === 'select_all') this.#selectAll()
    else this.#askTime(true)
  }

  #key(event: KeyboardEvent): void {
    const { key, ctrlKey, metaKey, altKey } = event
    const view = this.#view
    if (view === null || altKey || event.target !== event.currentTarget) return
    if ((ctrlKey || metaKey) && key.toLowerCase() === 'a') this.#selectAll()
    else if (ctrlKey || metaKey) return
    else if (key === 'End') this.#follow()
    else if (key === 'Home') this.#toStart()
    else return
    event.preventDefault()
  }

  #toStart(): void {
    const output = this.#output
    this.#view?.reveal(output?.firstNumber ?? 0, 'top')
    if (output?.head !== 'more' || output.toStart === undefined) return
    // Once more when it is there: lines that came in before those that are held would have moved the place.
    void output.toStart().then(line => this.#view?.reveal(line, 'top'))
  }

  #selectAll(): void {
    const output = this.#output
    if (output === undefined || this.#pointer === null) return
    this.querySelector<HTMLElement>('.scroll')?.focus({ preventScroll: true })
    this.#pointer.range = wholeRange(output, this.#format.shown)
  }

  /** A click on what can be unfolded, unless something was selected with it. */
  #clicked(event: Event): void {
    const range = this.#pointer?.range ?? null
    if ((event.target as HTMLElement).closest('a, .unfolded') !== null || (range !== null && !isEmpty(range))) return
    // Not by the event's target: a press is held by the whole region, so that it can be drawn on beyond it.
    const line = this.#view?.lineAtHeight((event as MouseEvent).clientY)
    if (line !== undefined) this.#view?.fold(line)
  }

  #copyEvent(event: ClipboardEvent): void {
    const range = this.#pointer?.range ?? null
    const output = this.#output
    if (range === null || output === undefined || isEmpty(range)) return
    event.clipboardData?.setData('text/plain', selectedText(output, range, this.#format.shown))
    event.preventDefault()
  }

  /** What is selected; where nothing is, all that is held. */
  async #copy(kind: 'plain' | 'ansi'): Promise<void> {
    const output = this.#output
    if (output === undefined) return
    const selected = this.#pointer?.range ?? null
    const range = selected === null || isEmpty(selected) ? wholeRange(output, this.#format.shown) : selected
    if (range === null) return
    const text = kind === 'ansi'
      ? selectedLines(output, range)
      : `${selectedText(output, range, this.#format.shown)}${range === selected ? '' : '\n'}`
    this.#copied = await copyText(text)
    this.update()
    setTimeout(() => {
      this.#copied = false
      this.update()
    }, thanksMs)
  }
}

function headLine(output: LogText): Template | null {
  if (output.head === 'start') return null
  if (output.head === 'more') return html`<p class="none">${t('Earlier lines come when you move up.')}</p>`
  return output.firstNumber > 0
    ? html`<p class="none">${t('{lines} left out here.', { lines: countWords(output.firstNumber, 'earlier line') })}</p>`
    : html`<p class="none">${t('Earlier lines are left out here: the download has them all.')}</p>`
}
