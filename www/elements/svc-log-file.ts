import type { LogSource } from '../../lib/model/log-source.js'
import type { LogCalls } from '../server/log-calls.js'
import { css, SvcElement } from '../dom/element.js'
import { html, icon } from '../dom/html.js'
import type { Template } from '../dom/html.js'
import type { Connection } from '../server/client.js'
import { LogFile } from '../state/log-file.js'
import { FilteredLog } from '../state/filtered-log.js'
import type { LogLevel } from '../state/log-level.js'
import { isNothing, LogSearch, noSought, patternOf } from '../state/log-search.js'
import type { Sought } from '../state/log-search.js'
import { jsonFormat, logFormat } from './log-format.js'
import { levelChoice, noneWords } from './log-level-choice.js'
import { SvcLog } from './svc-log.js'
import type { LogViewEvent } from './svc-log.js'
import { SvcLogRail } from './svc-log-rail.js'
import type { RailEvent } from './svc-log-rail.js'
import { focusSearch, pressForSearch, SvcLogSearch } from './svc-log-search.js'
import type { LogHitEvent, LogSoughtEvent } from './svc-log-search.js'
import { NoticeEvent } from './svc-notices.js'
import { sizeWords } from './words.js'
import { errorWords } from '../words/errors.js'
import { t } from '../words/t.js'

/** What the reader looks at in a file: for the address. */
export interface LogPlace {
  /** Offset of a line that was jumped to; null: the end. */
  at: number | null
  /** Null: nothing is searched for. */
  sought: Sought | null
}

/** The reader went to another place in the file, or searches for something else. */
export class LogPlaceEvent extends Event {
  readonly place: LogPlace

  constructor(place: LogPlace) {
    super('logplace', { bubbles: true })
    this.place = place
  }
}

declare global {
  interface HTMLElementEventMap {
    logplace: LogPlaceEvent
  }
}

/** A larger file has a scrollbar for all of it, unless all of it is held. */
const railBytes = 512 * 1024

/**
 * A log file of the server: its end at once, what is written to it, any place of it, a search of all of it. Properties
 * `calls`, `connection`, `source`; `place`: where to begin. Attribute `plain`: without a search. Event `logplace`. Keys:
 * those of `svc-log`; `/` goes to the search, `n` and `N` to the next hit and the one before.
 */
export class SvcLogFile extends SvcElement {
  static override sheet = css`
    svc-log-file {
      display: grid;
      grid-template: auto minmax(0, 1fr) / minmax(0, 1fr);
      height: 100%;
      min-height: 0;

      .said { display: flex; gap: 8px; align-items: baseline; padding: 6px 16px; border-bottom: 1px solid var(--line); font-size: var(--size-13); }
      .said .icon { align-self: center; color: var(--warning); }
      .said:empty { display: none; }
      .parts { display: grid; grid-template: minmax(0, 1fr) / minmax(0, 1fr) auto auto; min-height: 0; }
      .parts > svc-log { min-height: 0; }
      .parts > svc-log-search { width: 340px; border-left: 1px solid var(--line); }
      .size { color: var(--muted); font-size: var(--size-13); }
      .binary { padding: 32px 24px; }

      @media (max-width: 959px) {
        .parts { grid-template: auto minmax(0, 1fr) / minmax(0, 1fr) auto; }
        .parts > svc-log-search { grid-row: 1; grid-column: 1 / -1; width: auto; max-height: 40dvh; border: 0; border-bottom: 1px solid var(--line); }
      }
    }
  `

  calls!: LogCalls
  connection!: Connection
  source!: LogSource
  place: LogPlace = { at: null, sought: null }
  #file: LogFile | null = null
  #search: LogSearch | null = null
  #isSearching = false
  #level: LogLevel | null = null
  #filtered: FilteredLog | null = null
  #filtering = new AbortController()
  #at: number | null = null
  #seen = { first: 0, last: 0, isFollowing: true }

  protected override connected(): void {
    const { calls, source, connection, signal } = this
    const file = new LogFile({ id: source.id, calls, onConnection: state => connection.set(state), signal })
    this.#file = file
    this.#at = this.place.at
    file.addEventListener('change', () => this.update(), { signal })
    void file.open({ at: this.#at })
    if (this.#at !== null) this.#showPlace(file)
    if (this.place.sought !== null) this.#run(this.place.sought)
    this.signal.addEventListener('abort', () => {
      this.#search?.cancel()
      this.#filtering.abort()
    })
    this.listen(this, 'keydown', event => this.#key(event as KeyboardEvent))
  }

  protected override view(): Template {
    const file = this.#file as LogFile
    return html`
      <div class="said" role="status">
        ${file.problem === null ? null : html`${icon('warning')}<span>${file.problem}</span>`}
      </div>
      <div class="parts">
        ${file.state === 'binary' ? binary(file) : this.#text(file)}
        ${this.#hasRail(file)
          ? html`
            <svc-log-rail .place="${this.#railPlace(file)}" .hits="${(this.#search?.hits ?? []).map(hit => hit.offset)}"
              @rail="${(event: Event) => void this.#jump((event as RailEvent).offset)}"></svc-log-rail>`
          : null}
        ${this.#isSearching
          ? html`
            <svc-log-search .search="${this.#search}"
              @logsought="${(event: Event) => this.#ask((event as LogSoughtEvent).sought)}"
              @loghit="${(event: Event) => void this.#showHit((event as LogHitEvent).hit.offset)}"></svc-log-search>`
          : null}
      </div>`
  }

  #text(file: LogFile): Template {
    const { kind, label, filePath } = this.source
    const tools = html`
      <span class="size number" title="${filePath}">
        ${file.state === 'loading' ? null : sizeWords(file.size)}${/\.gz$/i.test(filePath) ? ` · ${t('compressed, shown inflated')}` : null}
      </span>
      ${levelChoice(this.#level, level => this.#filter(level))}
      ${this.hasAttribute('plain')
        ? null
        : html`
          <button type="button" class="quiet" aria-pressed="${this.#isSearching ? 'true' : 'false'}"
            aria-keyshortcuts="/" @click="${() => this.#switchSearch()}">${icon('search')}<span>${t('Search')}</span></button>`}`
    return html`
      <svc-log class="${this.#hasRail(file) ? 'tall railed' : 'tall'}" downloadable="" heading="${label}" .output="${this.#filtered ?? file}"
        .none="${noneWords(this.#level)}"
        .format="${kind === 'json' ? jsonFormat : logFormat}" .tools="${tools}"
        .pattern="${this.#search === null ? null : patternOf(this.#search.sought)}"
        @logview="${(event: Event) => this.#viewed(event as LogViewEvent)}"
        @logtime="${() => this.#moved(this.#file?.offsetOf(this.#seen.first) ?? null)}"
        @outputdownload="${() => void this.#download()}"></svc-log>`
  }

  #hasRail(file: LogFile): boolean {
    return file.size > railBytes && !(file.head === 'start' && file.isAtEnd)
  }

  #railPlace(file: LogFile): { size: number; from: number; to: number } {
    const { first, last } = this.#seen
    const from = file.offsetOf(first) ?? file.size
    const isLast = file.isAtEnd && last >= file.firstNumber + file.lines.length - 1
    return { size: file.size, from, to: isLast ? file.size : Math.max(from, file.offsetOf(last) ?? from) }
  }

  get #log(): SvcLog | null {
    return this.querySelector('svc-log') as SvcLog | null
  }

  #viewed({ first, last, isFollowing }: LogViewEvent): void {
    if (isFollowing && this.#at !== null && this.#file?.state === 'open') this.#moved(null)
        this.#seen = { first: this.#filtered?.originOf(first) ?? first, last: this.#filtered?.originOf(last) ?? last, isFollowing }
    const rail = this.querySelector('svc-log-rail') as SvcLogRail | null
    if (rail !== null && this.#file !== null) rail.place = this.#railPlace(this.#file)
  }

  /** Once it is there, the line of the address is shown. */
  #showPlace(file: LogFile): void {
    const show = (): void => {
      if (file.state !== 'open') return
      file.removeEventListener('change', show)
      const at = this.#at
      const found = file.lines.findIndex((_, index) => (file.offsetOf(file.firstNumber + index) ?? -1) >= (at ?? 0))
      if (found !== -1) queueMicrotask(() => this.#log?.reveal(this.#shownNumber(file.firstNumber + found)))
    }
    file.addEventListener('change', show, { signal: this.signal })
  }

  async #jump(offset: number): Promise<void> {
    const file = this.#file
    if (file === null) return
    if (offset >= file.size) return this.#log?.follow()
    try {
      const line = await file.jump(offset)
      this.#log?.reveal(this.#shownNumber(line), 'top')
      this.#moved(offset)
    } catch (error) {
      this.#failed(error)
    }
  }

  async #showHit(offset: number): Promise<void> {
    try {
      const line = await (this.#file as LogFile).jump(offset)
      this.#log?.reveal(this.#shownNumber(line))
      this.#moved(offset)
    } catch (error) {
      this.#failed(error)
    }
  }

  #moved(at: number | null): void {
    this.#at = at
    this.#tellPlace()
  }

  #tellPlace(): void {
    this.dispatchEvent(new LogPlaceEvent({ at: this.#at, sought: this.#search?.sought ?? null }))
  }

  #ask(sought: Sought): void {
    this.#search?.cancel()
    if (isNothing(sought)) {
      this.#search = null
      this.update()
    } else {
      this.#run(sought)
    }
    this.#tellPlace()
  }

  #run(sought: Sought): void {
    const search = new LogSearch(sought)
    this.#search = search
    this.#isSearching = true
    search.addEventListener('change', () => this.update(), { signal: this.signal })
    void search.run(this.calls, this.source.id)
    this.update()
  }

  /** Shows only lines of a level or worse; null: all. */
  #filter(level: LogLevel | null): void {
    const place = this.#seen.isFollowing ? null : this.#seen.first
    this.#filtering.abort()
    this.#filtering = new AbortController()
    this.#level = level
    const { signal } = this.#filtering
    this.#filtered = level === null || this.#file === null ? null : new FilteredLog({ text: this.#file, least: level, signal })
    this.update()
    if (place === null) return
    // Once the log has the other lines.
    setTimeout(() => (this.querySelector('svc-log') as SvcLog | null)?.reveal(this.#shownNumber(place), 'top'))
  }

  /** The number, in what is shown, of a line of the whole log. */
  #shownNumber(number: number): number {
    return this.#filtered === null ? number : this.#filtered.numberOf(number)
  }

  #switchSearch(): void {
    this.#isSearching = !this.#isSearching
    this.update()
    if (!this.#isSearching) {
      this.#ask(noSought)
      this.querySelector<HTMLElement>('svc-log .scroll')?.focus({ preventScroll: true })
      return
    }
    focusSearch(this)
  }

  #key(event: KeyboardEvent): void {
    if (event.key === '/' && this.hasAttribute('plain')) return
    pressForSearch(event, this, () => (this.#isSearching ? focusSearch(this) : this.#switchSearch()))
  }

  async #download(): Promise<void> {
    try {
      const link = document.createElement('a')
      link.href = this.calls.downloadAddress(this.source.id)
      link.download = ''
      link.click()
    } catch (error) {
      this.#failed(error)
    }
  }

  #failed(error: unknown): void {
    if (!this.signal.aborted) this.dispatchEvent(new NoticeEvent(errorWords(error), 'failed'))
  }
}

function binary(file: LogFile): Template {
  return html`
    <div class="state binary">
      <h2>${t('This is no text')}</h2>
      <p class="muted">
        ${t('The file holds {size} of something that cannot be shown as lines.', { size: sizeWords(file.size) })}
      </p>
    </div>`
}

/** All that a page needs to show one. */
export const logFileElements = {
  'svc-log-file': SvcLogFile,
  'svc-log': SvcLog,
  ...SvcLog.parts,
  'svc-log-rail': SvcLogRail,
  'svc-log-search': SvcLogSearch
}
