import { said, type Said, SvcElement } from '../element.js'
import { html, icon, type Template } from '../../dom/html.js'
import type { LogLine, LogText } from '../../state/held-lines.js'
import { type LineFormat, plainFormat } from './log-format.js'
import { createLogPointer, isEmpty, type LogPointer, selectedLines, selectedText, wholeRange } from './log-selection.js'
import { logSheet, SvcLogMenu, SvcLogTime } from './log-sheet.js'
import { LogView } from './log-view.js'
import { copyText } from '../base/facts.js'
import { countWords, t } from '../../words/t.js'

const timeColumns = 14
const sourceColumns = 16
const thanksMs = 1600

/**
 * A live log: of a deployment, a file, or several files. Properties: `output`; `format`, how lines are shown;
 * `pattern`, the expression to mark; `sources`, the logs that lines belong to; `tools`, more buttons for its bar;
 * `none`, the sentence for a log without lines. Attributes: `wrap` and `times`, which the reader can also switch;
 * `downloadable`, which offers a download of the whole log; `heading`. Events: `outputdownload`, `logview`. Keys while
 * the text has the focus: arrows, Page and Home scroll, End follows the end, Ctrl-A selects all loaded lines, Ctrl-C
 * copies, Enter unfolds the marked line.
 */
export class SvcLog extends SvcElement {
  static readonly observedAttributes = ['wrap', 'times', 'downloadable', 'heading']
  static override sheet = logSheet
  /** The elements inside it. A page that registers `svc-log` must register them too. */
  static readonly parts = { 'svc-log-menu': SvcLogMenu, 'svc-log-time': SvcLogTime }

  #output: LogText | undefined
  #format: LineFormat = plainFormat
  #pattern: RegExp | null = null
  #sources: ReadonlyArray<{ words: string }> = []
  tools: Template | null = null
  /** The sentence for a log without lines. */
  none = t('Nothing written yet.')
  #detach = new AbortController()
  #view: LogView | null = null
  #pointer: LogPointer | null = null
  #copied = false
  #isAskingTime = false
  #shownState = ''
  /** A line that was requested before there was a view. */
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

  /** Shows and marks a line by its number. */
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
        ${this.tools}
        <button type="button" class="quiet" aria-pressed="${pressed(this.hasAttribute('wrap'))}"
          @click="${() => this.toggleAttribute('wrap')}">${icon('wrap')}<span>${t('Wrap')}</span></button>
        ${
          first !== undefined && first.at === ''
            ? null
            : html`
            <button type="button" class="quiet" aria-pressed="${pressed(this.hasAttribute('times'))}"
              @click="${() => this.toggleAttribute('times')}">${t('Times')}</button>`
        }
        <button type="button" class="quiet" @click="${() => void this.#copy('plain')}">
          ${icon(this.#copied ? 'check' : 'copy')}
          <span aria-live="polite">${this.#copied ? t('Copied') : t('Copy')}</span>
        </button>
        ${
          this.hasAttribute('downloadable')
            ? html`
            <button type="button" class="quiet" @click="${() => this.dispatchEvent(said('outputdownload'))}">
              ${icon('download')}<span>${t('Download')}</span>
            </button>`
            : null
        }
        <svc-log-menu @logmenu="${(event: Event) => this.#menu(event as Said<'logmenu'>)}"></svc-log-menu>
        ${
          this.#isAskingTime && output !== undefined
            ? html`
            <svc-log-time .text="${output}" .nearMs="${Date.parse(first?.at ?? '')}"
              @logtime="${(event: Event) => this.reveal((event as Event & { line: number }).line)}"
              @logtimeclose="${() => this.#askTime(false)}"></svc-log-time>`
            : null
        }
      </div>
      <div class="scroll" tabindex="0" role="region" aria-label="${heading}"
        @scroll="${() => this.#view?.scrolled()}" @click="${(event: Event) => this.#clicked(event)}"
        @keydown="${(event: Event) => this.#key(event as KeyboardEvent)}">
        ${output === undefined ? null : headLine(output)}
        ${first === undefined ? html`<p class="none">${this.none}</p>` : null}
        <div class="space"><div class="lines" translate="no"></div></div>
        <span class="ruler" aria-hidden="true">${'0'.repeat(100)}</span>
      </div>
      ${
        view === null || view.isFollowing || (view.unseenLines === 0 && output?.isAtEnd !== false)
          ? null
          : html`
          <button type="button" class="primary resume" @click="${() => this.#follow()}">
            ${icon('down')}
            <span>${view.unseenLines === 0 ? t('Go to end') : countWords(view.unseenLines, 'new line')}</span>
          </button>`
      }`
  }

  protected override rendered(): void {
    if (this.#view === null && this.#output !== undefined) this.#build()
    this.#view?.askFrame()
  }

  /** Builds a view for the text in its current form. */
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

  /** Called after each drawing. Renders the bar only if its content changes. */
  #viewChanged(): void {
    const view = this.#view
    const output = this.#output
    if (view === null || output === undefined) return
    this.#pointer?.show()
    const state = JSON.stringify([
      view.isFollowing,
      view.unseenLines,
      output.isAtEnd,
      output.head,
      output.firstNumber,
      output.lines.length === 0
    ])
    if (state !== this.#shownState) {
      this.#shownState = state
      this.update()
    }
    this.dispatchEvent(said('logview', { ...view.seen, isFollowing: view.isFollowing }))
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

  #menu({ choice }: Said<'logmenu'>): void {
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
    // Reveals the line again when it is loaded: lines inserted before the loaded ones would have moved it.
    void output.toStart().then(line => this.#view?.reveal(line, 'top'))
  }

  #selectAll(): void {
    const output = this.#output
    if (output === undefined || this.#pointer === null) return
    this.querySelector<HTMLElement>('.scroll')?.focus({ preventScroll: true })
    this.#pointer.range = wholeRange(output, this.#format.shown)
  }

  /** A click unfolds a line, unless it ended a selection. */
  #clicked(event: Event): void {
    const range = this.#pointer?.range ?? null
    if ((event.target as HTMLElement).closest('a, .unfolded') !== null || (range !== null && !isEmpty(range))) return
    // The target of the event is not reliable: the whole region captures the press so that drags can leave it.
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

  /** Copies the selection, or all loaded lines if nothing is selected. */
  async #copy(kind: 'plain' | 'ansi'): Promise<void> {
    const output = this.#output
    if (output === undefined) return
    const selected = this.#pointer?.range ?? null
    const range = selected === null || isEmpty(selected) ? wholeRange(output, this.#format.shown) : selected
    if (range === null) return
    const text =
      kind === 'ansi'
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
  if (output.head === 'more') return html`<p class="none">${t('Scroll up to load earlier lines.')}</p>`
  return output.firstNumber > 0
    ? html`<p class="none">${t('{lines} omitted here.', { lines: countWords(output.firstNumber, 'earlier line') })}</p>`
    : html`<p class="none">${t('Earlier lines are omitted here. The download contains all lines.')}</p>`
}
