import { css, SvcElement, type LogChoice, said } from '../element.js'
import { html, icon, type Template } from '../../dom/html.js'
import { t, errorWords } from '../../words/t.js'
import type { LogText } from '../../state/held-lines.js'
import { serverNow } from '../../server/client.js'

export const logSheet = css`
  svc-log {
    position: relative;
    display: grid;
    grid-template: auto minmax(0, 1fr) / minmax(0, 1fr);
    overflow: clip;
    container-type: inline-size;

    .bar {
      display: flex;
      flex-wrap: wrap;
      align-items: center;
      gap: 4px;
      padding: 6px 8px 6px 16px;
      border-bottom: 1px solid var(--line);
    }

    .bar h2 { flex: 1; min-width: 60px; font-size: var(--size-14); }
    .bar button { padding-inline: 10px; font-size: var(--size-13); }
    .bar button[aria-pressed='true'] { background: var(--accent-quiet); color: var(--accent); }
    /* In a narrow container there is room for icons only; screen readers still get the words. */
    @container (max-width: 540px) {
      .bar select { width: 104px; }
      .bar button:has(> .icon) > span { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
    }
    .bar select { width: 150px; min-height: 32px; padding-block: 0; border-color: transparent; background-color: transparent; font-size: var(--size-13); }
    .bar select:hover { background-color: var(--hover); }
    .bar form { display: flex; flex-basis: 100%; flex-wrap: wrap; align-items: center; gap: 8px; padding: 4px 0; }
    .bar form label { font-size: var(--size-13); }
    .bar form input { width: auto; }
    .bar form .muted { flex: 1; min-width: 160px; }

    /* The region has its own name, and on a phone the switches need the line. */
    @media (max-width: 719px) { .bar { padding-left: 8px; } .bar h2 { display: none; } }

    .scroll {
      min-height: 160px;
      max-height: min(70dvh, 760px);
      overflow: auto;
      overflow-anchor: none;
      overscroll-behavior-y: contain;
      padding: 10px 0;
      background: var(--log-ground);
      border-radius: 0 0 7px 7px;
      color: var(--log-text);
      font: var(--size-12) / 1.4 var(--mono);
      contain: content;
    }

    &.tall .scroll { height: 100%; max-height: none; }
    &.tall.railed .scroll { scrollbar-width: none; }
    &.tall.railed .scroll::-webkit-scrollbar { width: 0; }

    .scroll:focus-visible { outline-offset: -2px; }
    /* Lines outside of a log that has become shorter must not extend it. */
    .space { position: relative; overflow-y: clip; }
    .lines { position: absolute; top: 0; left: 0; min-width: 100%; }
    .line { display: flex; min-height: 1.4em; padding-inline: 16px; white-space: pre; cursor: text; }
    &[wrap] .line { white-space: pre-wrap; word-break: break-all; }
    &[wrap] .lines { right: 0; }
    .line[data-level='error'] { box-shadow: inset 3px 0 var(--ansi-1); }
    .line[data-level='warn'] { box-shadow: inset 3px 0 var(--ansi-3); }
    .line:hover { background: var(--hover); }
    .line.here { background: var(--accent-quiet); box-shadow: inset 3px 0 var(--accent); }
    .line time { flex: none; width: 14ch; color: var(--muted); user-select: none; }
    .line > .text { min-width: 0; tab-size: 8; }
    .line a { color: inherit; text-decoration: underline; text-decoration-color: var(--edge); text-underline-offset: 2px; }
    .line a:hover { color: var(--accent); }
    .line mark { background: var(--warning-quiet); color: inherit; box-shadow: 0 1px var(--warning); }
    .line.note {
      justify-content: center;
      overflow: hidden;
      color: var(--muted);
      font-family: var(--sans);
      white-space: nowrap;
      user-select: none;
      cursor: default;
    }
    .line.note::before, .line.note::after {
      content: '';
      flex: 0 1 80px;
      align-self: center;
      margin-inline: 12px;
      border-top: 1px dashed var(--edge);
    }
    .line.open { flex-wrap: wrap; }
    .unfolded { flex-basis: 100%; padding-left: 4ch; overflow: hidden; color: var(--muted); white-space: pre; }

    .source {
      flex: none;
      width: 16ch;
      padding-right: 2ch;
      overflow: hidden;
      text-overflow: ellipsis;
      white-space: nowrap;
      user-select: none;
    }
    [data-source='0'] { color: var(--ansi-4); }
    [data-source='1'] { color: var(--ansi-5); }
    [data-source='2'] { color: var(--ansi-2); }
    [data-source='3'] { color: var(--ansi-3); }
    [data-source='4'] { color: var(--ansi-6); }
    [data-source='5'] { color: var(--ansi-1); }

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

const choices: ReadonlyArray<{ choice: LogChoice; words: string }> = [
  { choice: 'copy_colors', words: 'Copy with colours' },
  { choice: 'select_all', words: 'Select all loaded lines' },
  { choice: 'go_to_time', words: 'Go to a time…' }
]

/** The less common actions of a log. Event: `logmenu`. Keys: the arrows move, Escape closes. */
export class SvcLogMenu extends SvcElement {
  static override sheet = css`
    svc-log-menu {
      position: relative;
      display: flex;

      [role='menu'] {
        position: absolute;
        z-index: 2;
        right: 0;
        top: calc(100% + 4px);
        display: grid;
        min-width: 200px;
        padding: 4px;
        border-radius: 8px;
        background: var(--raised);
        box-shadow: var(--float);
      }

      [role='menu'] button { justify-content: flex-start; border-color: transparent; background: none; color: var(--text); }
      [role='menu'] button:focus-visible { outline-offset: -2px; }
    }
  `

  #isOpen = false

  protected override connected(): void {
    this.listen(document, 'pointerdown', event => {
      if (this.#isOpen && event.target instanceof Node && !this.contains(event.target)) this.#open(false)
    })
  }

  protected override view(): Template {
    return html`
      <button type="button" class="quiet" aria-haspopup="menu" aria-expanded="${this.#isOpen ? 'true' : 'false'}"
        @click="${() => this.#open(!this.#isOpen)}">${icon('more')}<span class="unseen">${t('More')}</span></button>
      ${
        this.#isOpen
          ? html`
          <div role="menu" aria-label="${t('More')}" @keydown="${(event: Event) => this.#key(event as KeyboardEvent)}">
            ${choices.map(
              ({ choice, words }) => html`
              <button type="button" role="menuitem" @click="${() => this.#choose(choice)}">${t(words)}</button>`
            )}
          </div>`
          : null
      }`
  }

  protected override rendered(): void {
    const menu = this.querySelector('[role=menu]')
    if (menu !== null && !menu.contains(document.activeElement)) menu.querySelector('button')?.focus()
  }

  #open(isOpen: boolean): void {
    this.#isOpen = isOpen
    this.update()
  }

  #choose(choice: LogChoice): void {
    this.#open(false)
    this.querySelector('button')?.focus()
    this.dispatchEvent(said('logmenu', { choice }))
  }

  #key(event: KeyboardEvent): void {
    const items = [...this.querySelectorAll<HTMLElement>('[role=menuitem]')]
    const at = items.indexOf(document.activeElement as HTMLElement)
    const moves: Record<string, number> = {
      ArrowDown: at + 1,
      ArrowUp: at - 1 + items.length,
      Home: 0,
      End: items.length - 1
    }
    const to = moves[event.key]
    if (event.key === 'Escape' || event.key === 'Tab') {
      this.#open(false)
      this.querySelector('button')?.focus()
    } else if (to !== undefined) {
      items[to % items.length]?.focus()
    } else {
      return
    }
    if (event.key !== 'Tab') event.preventDefault()
    event.stopPropagation()
  }
}

/**
 * Asks for a time and finds the first line at or after it. Properties: `text`, the log; `nearMs`, the proposed time.
 * Events: `logtime`, `logtimeclose`. Keys: Escape closes it.
 */
export class SvcLogTime extends SvcElement {
  text!: LogText
  nearMs = Number.NaN
  #words: string | null = null
  #isLooking = false
  #hasFocus = false

  protected override view(): Template {
    const near = Number.isNaN(this.nearMs) ? serverNow() : this.nearMs
    return html`
      <form @submit="${(event: Event) => void this.#find(event)}" @keydown="${(event: Event) => this.#key(event)}">
        <label for="log-time">${t('First line at or after')}</label>
        <input id="log-time" name="time" type="datetime-local" step="1" required="" .defaultValue="${localTime(near)}">
        <button disabled="${this.#isLooking}">${this.#isLooking ? t('Searching…') : t('Go')}</button>
        <button type="button" class="quiet" @click="${() => this.dispatchEvent(said('logtimeclose'))}">
          ${t('Close')}
        </button>
        <span class="muted small" role="status">${this.#words}</span>
      </form>`
  }

  protected override rendered(): void {
    if (this.#hasFocus) return
    this.#hasFocus = true
    this.querySelector('input')?.focus()
  }

  #key(event: Event): void {
    if ((event as KeyboardEvent).key === 'Escape') this.dispatchEvent(said('logtimeclose'))
  }

  async #find(event: Event): Promise<void> {
    event.preventDefault()
    const atMs = new Date(String(new FormData(event.currentTarget as HTMLFormElement).get('time'))).getTime()
    this.#isLooking = true
    this.#words = null
    this.update()
    try {
      const line = await this.text.seek(atMs)
      if (line === null) this.#words = t('No line has this time or a later one.')
      else this.dispatchEvent(said('logtime', { line }))
    } catch (error) {
      this.#words = errorWords(error)
    }
    this.#isLooking = false
    this.update()
  }
}

/** Formats a time as the field needs it: local time without a zone. */
function localTime(ms: number): string {
  const shifted = new Date(ms - new Date(ms).getTimezoneOffset() * 60_000)
  return shifted.toISOString().slice(0, 19)
}
