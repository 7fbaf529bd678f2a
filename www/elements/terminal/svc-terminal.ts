import { said, type Said, css, SvcElement } from '../element.js'
import { html, icon, type Template } from '../../dom/html.js'
import { numberWords, t, countWords } from '../../words/t.js'
import { createEmulator, createFeed } from '../../terminal/emulator.js'
import {
  everything,
  findText,
  type MarkStep,
  type Place,
  type Range,
  rangeOf,
  stepped,
  textIn
} from '../../terminal/selection.js'
import { bytesOfKey, type KeyPress } from '../../terminal/keys.js'
import { copyText } from '../base/facts.js'
import { createTerminalColors, terminalSheet } from './terminal-colors.js'
import { type KeyCommand, listenToKeys, listenToMouse } from './terminal-input.js'
import {
  createTerminalPicture,
  createTerminalSpeaker,
  type Mark,
  nodesOf,
  type TerminalPicture
} from './terminal-picture.js'

/**
 * A field that searches for a text shown elsewhere. Properties: `count`, the number of hits; `current`, the index of
 * the visible hit. Events: `findtext`, `findstep`, `findclose`. Keys: Enter goes to the previous hit, Shift-Enter to
 * the next one, Escape closes.
 */
export class SvcFind extends SvcElement {
  static override sheet = css`
    svc-find {
      display: flex;
      align-items: center;
      gap: 2px;
      padding: 4px;
      border-radius: var(--radius);
      background: var(--raised);
      box-shadow: var(--float);

      input:not([type='checkbox'], [type='file']) { width: 200px; min-height: 30px; font-size: var(--size-13); }
      output { min-width: 72px; padding: 0 6px; color: var(--muted); font-size: var(--size-12); text-align: center; }
      button { min-width: 30px; min-height: 30px; padding: 0; }
      .back { rotate: 180deg; }
    }
  `

  count = 0
  current = -1
  #text = ''

  protected override view(): Template {
    const words =
      this.count === 0
        ? t('No match')
        : t('{current} of {count}', { current: numberWords(this.current + 1), count: numberWords(this.count) })
    return html`
      <input type="text" aria-label="${t('Find in the terminal')}" placeholder="${t('Find')}" autocomplete="off" spellcheck="false"
        @input="${(event: Event) => this.#changed(event.target as HTMLInputElement)}"
        @keydown="${(event: Event) => this.#key(event as KeyboardEvent)}">
      <output aria-live="polite">${this.#text === '' ? '' : words}</output>
      <button type="button" class="quiet" title="${t('Previous match')}" @click="${() => this.#step(-1)}">
        <span class="back">${icon('down')}</span><span class="unseen">${t('Previous match')}</span>
      </button>
      <button type="button" class="quiet" title="${t('Next match')}" @click="${() => this.#step(1)}">
        ${icon('down')}<span class="unseen">${t('Next match')}</span>
      </button>
      <button type="button" class="quiet" title="${t('Close')}" @click="${() => this.dispatchEvent(said('findclose'))}">
        ${icon('close')}<span class="unseen">${t('Close')}</span>
      </button>`
  }

  /** Focuses the field and selects its text. */
  focusField(): void {
    this.querySelector('input')?.select()
  }

  #changed(field: HTMLInputElement): void {
    this.#text = field.value
    this.update()
    this.dispatchEvent(said('findtext', { text: this.#text }))
  }

  #step(step: -1 | 1): void {
    this.dispatchEvent(said('findstep', { step }))
  }

  #key(event: KeyboardEvent): void {
    event.stopPropagation()
    if (event.isComposing) return
    if (event.key === 'Enter') this.#step(event.shiftKey ? 1 : -1)
    else if (event.key === 'Escape') this.dispatchEvent(said('findclose'))
  }
}

const ringMs = 200

/**
 * The screen of a terminal. `write()` accepts the output of the program. Attributes: `label`, its name for screen
 * readers; `spoken`, reads new output aloud. Events: `terminalinput`, `terminalsize`, `terminaltitle`, `terminalbell`,
 * `terminalleave`. Keys go to the program, except Ctrl-Shift-C and -V (copy, paste), -A (select all), -F (find), -Up,
 * -Down (scroll), Shift-Page Up, -Page Down, -Home and -End (scroll), Shift and an arrow (select; on the alternate
 * screen they go to the program), Ctrl-F6 (leave).
 */
export class SvcTerminal extends SvcElement {
  static readonly observedAttributes = ['label']
  static override sheet = terminalSheet

  #emulator = createEmulator({
    columns: 80,
    rows: 24,
    onReply: bytes => this.#send(bytes),
    onTitle: title => this.dispatchEvent(said('terminaltitle', { terminalTitle: title })),
    onBell: () => this.#ring(),
    colorOf: which => this.#colors.rgbOf(which)
  })
  #feed = createFeed({ write: text => this.#emulator.write(text), now: () => performance.now() })
  #colors = createTerminalColors(this)
  #speaker = createTerminalSpeaker(this.#emulator, () => this.querySelector('.spoken'))
  #picture: TerminalPicture | undefined
  #wired: AbortSignal | undefined

  #selection: Range | null = null
  /** The start and the current end of a selection made by keys. */
  #ends: [Place, Place] | null = null
  #isFinding = false
  #hits: Range[] = []
  #hit = -1

  /** Writes output of the program. Calls `onWritten` once it is on the screen. */
  write(text: string, onWritten?: () => void): void {
    this.#feed.push(text, onWritten)
    this.#picture?.askFrame()
  }

  /** Sets the size before the terminal is visible. Once visible, its space determines the size. */
  resize(columns: number, rows: number): void {
    this.#emulator.resize(columns, rows)
  }

  /** Resets the terminal to its initial state. */
  reset(): void {
    this.#feed.clear()
    this.#emulator.reset()
    this.#select(null)
    this.#picture?.follow()
  }

  /** Handles a key as if it had been pressed. */
  press(key: KeyPress): void {
    const bytes = bytesOfKey(key, this.#emulator.modes)
    if (bytes !== null) this.#typed(bytes)
  }

  override focus(): void {
    this.#field?.focus({ preventScroll: true })
  }

  protected override view(): Template {
    const label = this.getAttribute('label') ?? t('Terminal')
    const belowLines = this.#picture?.belowLines ?? 0
    return html`
      <div class="view">
        <div class="space">
          <div class="rows" aria-hidden="true"></div><div class="marks"></div><div class="cursor" aria-hidden="true"></div>
          <textarea class="keys" aria-label="${label}" aria-description="${t('Ctrl-F6 leaves the terminal')}"
            autocomplete="off" autocapitalize="off" spellcheck="false" rows="1"></textarea>
        </div>
        <span class="ruler" aria-hidden="true">${'0'.repeat(100)}</span>
      </div>
      <div class="unseen spoken" role="log" aria-live="polite" aria-label="${t('Output of {label}', { label })}"></div>
      ${
        this.#isFinding
          ? html`
          <svc-find .count="${this.#hits.length}" .current="${this.#hit}"
            @findtext="${(event: Event) => this.#find((event as Said<'findtext'>).text)}"
            @findstep="${(event: Event) => this.#step((event as Said<'findstep'>).step)}"
            @findclose="${() => this.#closeFind()}"></svc-find>`
          : null
      }
      ${
        belowLines === 0
          ? null
          : html`
          <button type="button" class="primary resume" @click="${() => this.#resume()}">
            ${icon('down')}<span>${countWords(belowLines, 'new line')}</span>
          </button>`
      }`
  }

  protected override rendered(): void {
    if (this.#wired === this.signal) return
    this.#wired = this.signal
    const { signal } = this
    const nodes = nodesOf(this)
    const picture = (this.#picture ??= createTerminalPicture({
      host: this,
      nodes,
      emulator: this.#emulator,
      feed: this.#feed,
      colors: this.#colors,
      onChange: () => this.update(),
      onWritten: () => {
        if (this.hasAttribute('spoken')) this.#speaker.noticed()
        else this.#speaker.skip()
      }
    }))
    const { view, space, field } = nodes
    const emulator = this.#emulator
    const modes = (): typeof emulator.modes => emulator.modes
    listenToKeys({
      field,
      modes,
      isAlternate: () => emulator.isAlternate,
      onInput: bytes => this.#typed(bytes),
      onCommand: command => this.#command(command),
      signal
    })
    const onInput = (bytes: string): void => this.#send(bytes)
    listenToMouse({
      view,
      space,
      emulator,
      cell: () => picture.cell,
      onInput,
      onSelect: range => this.#select(range),
      signal
    })
    this.listen(view, 'mousedown', event => this.#clicked(event as MouseEvent))
    for (const type of ['focus', 'blur']) this.listen(field, type, () => this.#focusChanged(type === 'focus'))
    this.listen(field, 'copy', event => this.#copied(event as ClipboardEvent))
    this.#watch()
  }

  /** Watches the size of the element, the font and the theme. */
  #watch(): void {
    const themed = (): void => {
      if (this.#colors.refresh()) this.#picture?.redraw()
    }
    themed()
    this.listen(matchMedia('(prefers-color-scheme: dark)'), 'change', themed)
    const themes = new MutationObserver(themed)
    themes.observe(document.documentElement, { attributes: true })
    const sizes = new ResizeObserver(() => this.#measure())
    sizes.observe(this)
    this.signal.addEventListener('abort', () => {
      themes.disconnect()
      sizes.disconnect()
    })
    void document.fonts.ready.then(() => this.#measure())
  }

  #measure(): void {
    const size = this.#picture?.measure() ?? null
    if (size === null || !this.isConnected) return
    const { columns, rows } = this.#emulator
    if (size.columns !== columns || size.rows !== rows) {
      this.#emulator.resize(size.columns, size.rows)
      this.#select(null)
      this.#hits = []
    }
    this.dispatchEvent(said('terminalsize', { columns: size.columns, rows: size.rows }))
  }

  get #field(): HTMLTextAreaElement | null {
    return this.querySelector('.keys')
  }

  #send(bytes: string): void {
    this.dispatchEvent(said('terminalinput', { bytes }))
  }

  /** Sends typed bytes, clears the selection and scrolls to the cursor. */
  #typed(bytes: string): void {
    if (this.#selection !== null) this.#select(null)
    this.#picture?.follow()
    this.#send(bytes)
  }

  #ring(): void {
    this.dispatchEvent(said('terminalbell'))
    this.toggleAttribute('data-ringing', true)
    setTimeout(() => this.toggleAttribute('data-ringing', false), ringMs)
  }

  #resume(): void {
    this.#picture?.follow()
    this.focus()
  }

  #focusChanged(isFocused: boolean): void {
    this.toggleAttribute('data-focused', isFocused)
    if (!isFocused) this.#field?.classList.remove('menu')
    if (this.#emulator.modes.focusReports) this.#send(isFocused ? '\x1b[I' : '\x1b[O')
  }

  /** Moves the field below the right mouse button, so that the browser's menu offers copy and paste. */
  #clicked(event: MouseEvent): void {
    const field = this.#field as HTMLTextAreaElement
    const isMenu = event.button === 2 && this.#emulator.modes.mouse === 0
    field.classList.toggle('menu', isMenu)
    field.value = isMenu ? this.#selectedText() : ''
    if (isMenu) {
      const box = (field.parentElement as HTMLElement).getBoundingClientRect()
      field.style.left = `${event.clientX - box.left - 8}px`
      field.style.top = `${event.clientY - box.top - 8}px`
    }
    this.focus()
    if (isMenu) field.select()
  }

  #command(command: KeyCommand): void {
    const picture = this.#picture as TerminalPicture
    const { rows, historyLength } = this.#emulator
    switch (command) {
      case 'copy':
        return void this.#copy()
      case 'mark-all':
        return this.#select(everything(this.#emulator))
      case 'find':
        return this.#openFind()
      case 'leave':
        return void this.dispatchEvent(said('terminalleave'))
      case 'page-up':
        return picture.scrollBy(1 - rows)
      case 'page-down':
        return picture.scrollBy(rows - 1)
      case 'line-up':
        return picture.scrollBy(-1)
      case 'line-down':
        return picture.scrollBy(1)
      case 'top':
        return picture.scrollBy(-historyLength - rows)
      case 'bottom':
        return picture.follow()
      default:
        return this.#extend(command)
    }
  }

  #selectedText(): string {
    return this.#selection === null ? '' : textIn(this.#emulator, this.#selection)
  }

  /** Extends the selection. It begins at the cursor if nothing is selected. */
  #extend(step: MarkStep): void {
    const { cursor, firstLine, historyLength } = this.#emulator
    const here = { line: firstLine + historyLength + cursor.y, column: cursor.x }
    const { from = here, to = here } = this.#selection ?? {}
    const [begin, end] = this.#ends ?? [from, to]
    const now = stepped(this.#emulator, end, step)
    this.#select(rangeOf(begin, now))
    this.#ends = [begin, now]
    this.#picture?.reveal(now.line)
  }

  #select(range: Range | null): void {
    this.#selection = range
    this.#ends = null
    this.#mark()
  }

  async #copy(): Promise<void> {
    const text = this.#selectedText()
    if (text !== '') await copyText(text)
    this.focus()
  }

  #copied(event: ClipboardEvent): void {
    const text = this.#selectedText()
    if (text === '') return
    event.preventDefault()
    event.clipboardData?.setData('text/plain', text)
  }

  #mark(): void {
    const marks: Mark[] = this.#hits.map((range, index) => ({ range, name: index === this.#hit ? 'current' : 'hit' }))
    if (this.#selection !== null) marks.push({ range: this.#selection, name: 'selected' })
    this.#picture?.setMarks(marks)
  }

  #openFind(): void {
    this.#isFinding = true
    this.update()
    // After the renderings of the bar and of its field.
    setTimeout(() => this.querySelector<SvcFind>('svc-find')?.focusField())
  }

  #closeFind(): void {
    this.#isFinding = false
    this.#find('')
    this.focus()
  }

  /** Goes to the newest hit first, because the searched text has usually just been written. */
  #find(text: string): void {
    this.#hits = findText(this.#emulator, text)
    this.#hit = this.#hits.length - 1
    this.#showHit()
  }

  #step(step: -1 | 1): void {
    const count = this.#hits.length
    if (count > 0) this.#hit = (this.#hit + step + count) % count
    this.#showHit()
  }

  #showHit(): void {
    const hit = this.#hits[this.#hit]
    if (hit !== undefined) this.#picture?.reveal(hit.from.line)
    this.#mark()
    this.update()
  }
}
