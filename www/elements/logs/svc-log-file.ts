import { placeOf, type Client, type Connection } from '../../server/client.js'
import { type LogPlace, notice, said, type Said, css, SvcElement } from '../element.js'
import { html, icon, type Template } from '../../dom/html.js'
import { t, errorWords } from '../../words/t.js'
import type { LogSource } from '../../../lib/model/log-source.js'
import { download } from '../../dom/address.js'
import { LogFile } from '../../state/log-file.js'
import { focusSearch, pressForSearch, SvcLogSearch } from './svc-log-search.js'
import { isNothing, LogSearch, noSought, patternOf, type Sought } from '../../state/log-search.js'
import { jsonFormat, logFormat } from './log-format.js'
import { LevelFilter } from './level-filter.js'
import { SvcLog } from './svc-log.js'
import { formatBytes } from '../../shared/api.js'

/** A position in a file, in bytes. */
export interface RailPlace {
  size: number
  /** The visible part. */
  from: number
  to: number
}

/** The file is divided into this many parts; all hits in one part share a mark. */
const marks = 300
const dragMs = 150
const leastThumb = 0.02

/**
 * The scrollbar of a file that is too large to load completely. It covers all bytes of the file. Properties: `place`;
 * `hits`, the offsets of the hits. Event: `rail`. Keys: arrows, Page, Home and End move.
 */
export class SvcLogRail extends SvcElement {
  static override sheet = css`
    svc-log-rail {
      position: relative;
      display: block;
      width: 16px;
      border-left: 1px solid var(--line);
      background: var(--log-ground);
      cursor: pointer;
      touch-action: none;

      .thumb { position: absolute; z-index: 1; inset-inline: 3px; border-radius: 5px; background: var(--edge); opacity: 0.8; }
      &:hover .thumb, &:focus-visible .thumb { opacity: 1; }
      i { position: absolute; inset-inline: 50% 2px; height: 2px; background: var(--warning); pointer-events: none; }
      &:focus-visible { outline-offset: -2px; }
      @media (pointer: coarse) { width: 24px; }
    }
  `

  place: RailPlace = { size: 0, from: 0, to: 0 }
  hits: readonly number[] = []
  #pressed: { at: number; share: number } | null = null
  #lastDragMs = 0

  protected override connected(): void {
    this.tabIndex = 0
    this.setAttribute('role', 'scrollbar')
    this.setAttribute('aria-orientation', 'vertical')
    this.setAttribute('aria-label', t('Position in the file'))
    this.listen(this, 'keydown', event => this.#key(event as KeyboardEvent))
    this.listen(this, 'pointerdown', event => this.#press(event as PointerEvent))
    this.listen(this, 'pointermove', event => this.#drag(event as PointerEvent))
    for (const type of ['pointerup', 'pointercancel'])
      this.listen(this, type, event => this.#release(event as PointerEvent))
  }

  protected override view(): Template {
    const { size } = this.place
    const places = new Set(size === 0 ? [] : this.hits.map(offset => Math.floor((offset / size) * marks)))
    return html`<div class="thumb"></div>${[...places].map(place => html`<i data-place="${place}"></i>`)}`
  }

  protected override rendered(): void {
    const { top, height } = this.#thumb()
    const thumb = this.querySelector<HTMLElement>('.thumb')
    if (thumb !== null) {
      thumb.style.top = `${top * 100}%`
      thumb.style.height = `${height * 100}%`
    }
    for (const mark of this.querySelectorAll<HTMLElement>('i')) {
      mark.style.top = `${(Number(mark.dataset['place']) / marks) * 100}%`
    }
    const { size, from } = this.place
    this.setAttribute('aria-valuenow', String(size === 0 ? 100 : Math.round((from / size) * 100)))
  }

  #thumb(): { top: number; height: number } {
    const { size, from, to } = this.place
    if (size === 0) return { top: 0, height: 1 }
    const height = Math.max(leastThumb, (to - from) / size)
    // At the end, the thumb is at the very bottom, however small the visible part is.
    const share = size === to ? 1 : from / Math.max(1, size - (to - from))
    const top = this.#pressed?.share ?? share
    return { top: Math.min(1, top) * (1 - height), height }
  }

  #shareAt(event: PointerEvent): number {
    const box = this.getBoundingClientRect()
    const { height } = this.#thumb()
    const room = box.height * (1 - height)
    return Math.max(0, Math.min(1, (event.clientY - box.top - (height * box.height) / 2) / Math.max(1, room)))
  }

  #press(event: PointerEvent): void {
    if (event.button !== 0) return
    event.preventDefault()
    this.setPointerCapture(event.pointerId)
    this.#go(this.#shareAt(event), true)
  }

  #drag(event: PointerEvent): void {
    if (this.#pressed !== null) this.#go(this.#shareAt(event), performance.now() - this.#lastDragMs > dragMs)
  }

  #release(event: PointerEvent): void {
    if (this.#pressed === null) return
    this.#go(this.#shareAt(event), true)
    this.#pressed = null
    this.update()
  }

  #go(share: number, isTold: boolean): void {
    this.#pressed = { at: performance.now(), share }
    this.update()
    if (!isTold) return
    this.#lastDragMs = performance.now()
    this.dispatchEvent(said('rail', { offset: Math.round(share * this.place.size) }))
  }

  #key({ key }: KeyboardEvent): void {
    const { size, from } = this.place
    const steps: Record<string, number> = {
      ArrowUp: from - size / 100,
      ArrowDown: from + size / 100,
      PageUp: from - size / 10,
      PageDown: from + size / 10,
      Home: 0,
      End: size
    }
    const to = steps[key]
    if (to !== undefined) this.dispatchEvent(said('rail', { offset: Math.max(0, Math.min(size, Math.round(to))) }))
  }
}

/** A larger file has a scrollbar for the whole file, unless all of it is loaded. */
const railBytes = 512 * 1024

/**
 * A log file of the server: its end, its growth, any part of it, and a search through all of it. Properties: `client`,
 * `connection`, `source`; `place`, the position to begin at. Attribute: `plain`, without a search. Event: `logplace`.
 * Keys: those of `svc-log`; `/` focuses the search, `n` and `N` go to the next and the previous hit.
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

  client!: Client
  connection!: Connection
  source!: LogSource
  place: LogPlace = { at: null, sought: null }
  #file: LogFile | null = null
  #search: LogSearch | null = null
  #isSearching = false
  #at: number | null = null
  #filter!: LevelFilter

  protected override connected(): void {
    const { client, source, connection, signal } = this
    const file = new LogFile({ id: source.id, client, onConnection: state => connection.set(state), signal })
    this.#file = file
    this.#filter = new LevelFilter({ element: this, text: file, onChange: () => this.update(), signal })
    this.#at = this.place.at
    file.addEventListener('change', () => this.update(), { signal })
    void file.open({ at: this.#at })
    if (this.#at !== null) this.#showPlace(file)
    if (this.place.sought !== null) this.#run(this.place.sought)
    signal.addEventListener('abort', () => this.#search?.cancel())
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
        ${
          this.#hasRail(file)
            ? html`
            <svc-log-rail .place="${this.#railPlace(file)}" .hits="${(this.#search?.hits ?? []).map(hit => hit.offset)}"
              @rail="${(event: Event) => void this.#jump((event as Said<'rail'>).offset)}"></svc-log-rail>`
            : null
        }
        ${
          this.#isSearching
            ? html`
            <svc-log-search .search="${this.#search}"
              @logsought="${(event: Event) => this.#ask((event as Said<'logsought'>).sought)}"
              @loghit="${(event: Event) => void this.#showHit((event as Said<'loghit'>).hit.offset)}"></svc-log-search>`
            : null
        }
      </div>`
  }

  #text(file: LogFile): Template {
    const { kind, label, filePath } = this.source
    const tools = html`
      <span class="size number" title="${filePath}">
        ${file.state === 'loading' ? null : formatBytes(file.size)}${/\.gz$/i.test(filePath) ? ` · ${t('compressed, shown decompressed')}` : null}
      </span>
      ${this.#filter.field()}
      ${
        this.hasAttribute('plain')
          ? null
          : html`
          <button type="button" class="quiet" aria-pressed="${this.#isSearching ? 'true' : 'false'}"
            aria-keyshortcuts="/" @click="${() => this.#switchSearch()}">${icon('search')}<span>${t('Search')}</span></button>`
      }`
    return html`
      <svc-log class="${this.#hasRail(file) ? 'tall railed' : 'tall'}" downloadable="" heading="${label}" .output="${this.#filter.text}"
        .none="${this.#filter.none}"
        .format="${kind === 'json' ? jsonFormat : logFormat}" .tools="${tools}"
        .pattern="${this.#search === null ? null : patternOf(this.#search.sought)}"
        @logview="${(event: Event) => this.#viewed(event as Said<'logview'>)}"
        @logtime="${() => this.#moved(this.#file?.offsetOf(this.#filter.seen.first) ?? null)}"
        @outputdownload="${() => void this.#download()}"></svc-log>`
  }

  #hasRail(file: LogFile): boolean {
    return file.size > railBytes && !(file.head === 'start' && file.isAtEnd)
  }

  #railPlace(file: LogFile): { size: number; from: number; to: number } {
    const { first, last } = this.#filter.seen
    const from = file.offsetOf(first) ?? file.size
    const isLast = file.isAtEnd && last >= file.firstNumber + file.lines.length - 1
    return { size: file.size, from, to: isLast ? file.size : Math.max(from, file.offsetOf(last) ?? from) }
  }

  #viewed(event: Said<'logview'>): void {
    if (event.isFollowing && this.#at !== null && this.#file?.state === 'open') this.#moved(null)
    this.#filter.viewed(event)
    const rail = this.querySelector('svc-log-rail') as SvcLogRail | null
    if (rail !== null && this.#file !== null) rail.place = this.#railPlace(this.#file)
  }

  /** Shows the line of the address as soon as it is loaded. */
  #showPlace(file: LogFile): void {
    const show = (): void => {
      if (file.state !== 'open') return
      file.removeEventListener('change', show)
      const at = this.#at
      const found = file.lines.findIndex((_, index) => (file.offsetOf(file.firstNumber + index) ?? -1) >= (at ?? 0))
      if (found !== -1) queueMicrotask(() => this.#filter.reveal(file.firstNumber + found))
    }
    file.addEventListener('change', show, { signal: this.signal })
  }

  async #jump(offset: number): Promise<void> {
    const file = this.#file
    if (file === null) return
    if (offset >= file.size) return (this.querySelector('svc-log') as SvcLog | null)?.follow()
    try {
      const line = await file.jump(offset)
      this.#filter.reveal(line, 'top')
      this.#moved(offset)
    } catch (error) {
      this.#failed(error)
    }
  }

  async #showHit(offset: number): Promise<void> {
    try {
      const line = await (this.#file as LogFile).jump(offset)
      this.#filter.reveal(line)
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
    this.dispatchEvent(said('logplace', { place: { at: this.#at, sought: this.#search?.sought ?? null } }))
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
    void search.run(this.client, this.source.id)
    this.update()
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
      download(
        this.client.address(placeOf('GET /api/log-sources/:sourceId/download', { sourceId: this.source.id })),
        ''
      )
    } catch (error) {
      this.#failed(error)
    }
  }

  #failed(error: unknown): void {
    if (!this.signal.aborted) this.dispatchEvent(notice(errorWords(error), 'failed'))
  }
}

function binary(file: LogFile): Template {
  return html`
    <div class="state binary">
      <h2>${t('Not a text file')}</h2>
      <p class="muted">
        ${t('The file contains {size} of binary data that cannot be shown as lines.', { size: formatBytes(file.size) })}
      </p>
    </div>`
}

/** The elements that a page registers to show a log file. */
export const elements = {
  'svc-log-file': SvcLogFile,
  'svc-log': SvcLog,
  ...SvcLog.parts,
  'svc-log-rail': SvcLogRail,
  'svc-log-search': SvcLogSearch
}
