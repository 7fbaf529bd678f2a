import { said, type Said } from '../events.js'
import { SvcElement } from '../../dom/element.js'
import { html, icon, type Template } from '../../dom/html.js'
import { createEmulator } from '../../terminal/emulator.js'
import { createFeed } from '../../terminal/feed.js'
import { findText } from '../../terminal/find.js'
import { bytesOfKey, type KeyPress } from '../../terminal/keys.js'
import {
  everything,
  rangeOf,
  stepped,
  textIn,
  type MarkStep,
  type Place,
  type Range
} from '../../terminal/selection.js'
import { copyText } from '../base/svc-copy.js'
import type { SvcFind } from './svc-find.js'
import { createTerminalColors } from './terminal-colors.js'
import { listenToKeys, type KeyCommand } from './terminal-keys.js'
import { listenToMouse } from './terminal-mouse.js'
import { createTerminalPicture, nodesOf, type TerminalPicture } from './terminal-picture.js'
import type { Mark } from './terminal-rows.js'
import { createTerminalSpeaker } from './terminal-speaker.js'
import { terminalSheet } from './terminal-styles.js'
import { countWords, t } from '../../words/t.js'

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
