import type { LogSource } from '../../lib/model/log-source.js'
import type { LogCalls } from '../server/log-calls.js'
import { css, SvcElement } from '../dom/element.js'
import { html, icon } from '../dom/html.js'
import type { Template } from '../dom/html.js'
import type { Connection } from '../server/client.js'
import { LogFile } from '../state/log-file.js'
import { isNothing, noSought, patternOf } from '../state/log-search.js'
import type { Sought } from '../state/log-search.js'
import { FilteredLog } from '../state/filtered-log.js'
import type { LogLevel } from '../state/log-level.js'
import type { LogLine } from '../state/log-text.js'
import { MergedLog } from '../state/merged-log.js'
import { MergedSearch } from '../state/merged-search.js'
import type { MergedHit } from '../state/merged-search.js'
import { timeOfLine } from '../state/line-time.js'
import { mergedFormat } from './log-format.js'
import { levelChoice, noneWords } from './log-level-choice.js'
import type { LogViewEvent, SvcLog } from './svc-log.js'
import { focusSearch, pressForSearch } from './svc-log-search.js'
import type { LogHitEvent, LogSoughtEvent } from './svc-log-search.js'
import { NoticeEvent } from './svc-notices.js'
import { errorWords } from '../words/errors.js'
import { t } from '../words/t.js'

/** More than a file that is shown alone: all of what is merged is held until it is given up. */
const limits = { maxLines: 300_000 }

/**
 * Several log files as one, in the order of the times that their lines say; searched together. Properties `sources`,
 * `calls`, `connection`, set before it enters the page. Keys: those of `svc-log`; `/` goes to the search, `n` and `N` to
 * the next hit and the one before.
 */
export class SvcMergedLog extends SvcElement {
  static override sheet = css`
    svc-merged-log {
      display: grid;
      grid-template: auto minmax(0, 1fr) / minmax(0, 1fr);
      height: 100%;
      min-height: 0;

      .said p { display: flex; gap: 8px; align-items: center; padding: 6px 16px; border-bottom: 1px solid var(--line); font-size: var(--size-13); }
      .said .icon { color: var(--warning); }
      .parts { display: grid; grid-template: minmax(0, 1fr) / minmax(0, 1fr) auto; min-height: 0; }
      .parts > svc-log { min-height: 0; }
      .parts > svc-log-search { width: 340px; border-left: 1px solid var(--line); }

      @media (max-width: 959px) {
        .parts { grid-template: auto minmax(0, 1fr) / minmax(0, 1fr); }
        .parts > svc-log-search { grid-row: 1; width: auto; max-height: 40dvh; border: 0; border-bottom: 1px solid var(--line); }
      }
    }
  `

  sources: readonly LogSource[] = []
  calls!: LogCalls
  connection!: Connection
  #files: LogFile[] = []
  #merged: MergedLog | null = null
  #search: MergedSearch | null = null
  #isSearching = false
  #level: LogLevel | null = null
  #filtered: FilteredLog | null = null
  #filtering = new AbortController()
  #seen = { first: 0, isFollowing: true }

  protected override connected(): void {
    const { calls, connection, signal } = this
    this.#files = this.sources.map(({ id }) =>
      new LogFile({ id, calls, onConnection: state => connection.set(state), signal, limits }))
    this.#merged = new MergedLog({ parts: this.#files, signal })
    for (const file of this.#files) {
      file.addEventListener('change', () => this.update(), { signal })
      void file.open()
    }
    signal.addEventListener('abort', () => {
      this.#search?.cancel()
      this.#filtering.abort()
    })
    this.listen(this, 'keydown', event => {
      pressForSearch(event as KeyboardEvent, this, () => (this.#isSearching ? focusSearch(this) : this.#switchSearch()))
    })
  }

  protected override view(): Template {
    const problems = this.#files.flatMap((file, index) => file.problem === null ? [] : [{ file, source: this.sources[index] }])
    return html`
      <div class="said" role="status">
        ${problems.map(({ file, source }) => html`
          <p>${icon('warning')}<span>${source?.label}: ${file.problem}</span></p>`)}
      </div>
      <div class="parts">
        <svc-log class="tall" wrap="" heading="${t('Merged by time')}" .output="${this.#filtered ?? this.#merged}" .format="${mergedFormat}"
          .none="${noneWords(this.#level)}"
          .pattern="${this.#search === null ? null : patternOf(this.#search.sought)}"
          .sources="${this.#labels}" .tools="${this.#tools()}"
          @logview="${(event: Event) => this.#viewed(event as LogViewEvent)}"></svc-log>
        ${this.#isSearching
          ? html`
            <svc-log-search .sources="${this.#labels}" .search="${this.#search}"
              @logsought="${(event: Event) => this.#ask((event as LogSoughtEvent).sought)}"
              @loghit="${(event: Event) => void this.#show((event as LogHitEvent).hit as MergedHit)}"></svc-log-search>`
          : null}
      </div>`
  }

  #tools(): Template {
    return html`
      ${levelChoice(this.#level, level => this.#filter(level))}
      <button type="button" class="quiet" aria-pressed="${this.#isSearching ? 'true' : 'false'}"
        aria-keyshortcuts="/" @click="${() => this.#switchSearch()}">${icon('search')}<span>${t('Search')}</span></button>`
  }

  #viewed({ first, isFollowing }: LogViewEvent): void {
    this.#seen = { first: this.#filtered?.originOf(first) ?? first, isFollowing }
  }

  /** Shows only lines of a level or worse; null: all. */
  #filter(level: LogLevel | null): void {
    const place = this.#seen.isFollowing ? null : this.#seen.first
    this.#filtering.abort()
    this.#filtering = new AbortController()
    this.#level = level
    const { signal } = this.#filtering
    this.#filtered = level === null || this.#merged === null ? null : new FilteredLog({ text: this.#merged, least: level, signal })
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
    if (this.#isSearching) focusSearch(this)
    else this.#ask(noSought)
    this.update()
  }

  #ask(sought: Sought): void {
    this.#search?.cancel()
    this.#search = null
    if (!isNothing(sought)) {
      const search = new MergedSearch(sought, this.sources.map(({ label }) => label))
      this.#search = search
      void search.run(this.calls, this.sources.map(({ id }) => id))
    }
    this.update()
  }

  async #show({ source, offset, text, timeMs }: MergedHit): Promise<void> {
    try {
      const atMs = timeMs ?? (await timeBefore(this.#files[source] as LogFile, offset))
      const isHit = (line: LogLine): boolean => line.source === source && line.text.startsWith(text)
      const number = atMs === null ? null : await this.#merged?.jump(atMs, isHit)
      if (typeof number === 'number') (this.querySelector('svc-log') as SvcLog | null)?.reveal(this.#shownNumber(number))
    } catch (error) {
      if (!this.signal.aborted) this.dispatchEvent(new NoticeEvent(errorWords(error), 'failed'))
    }
  }

  /** The same object each time, so that the log is not built anew. */
  get #labels(): ReadonlyArray<{ words: string }> {
    return (this.#shownLabels ??= this.sources.map(({ label }) => ({ words: label })))
  }

  #shownLabels: ReadonlyArray<{ words: string }> | undefined
}

/** When the last line with a time was written that stands before one; null: none of those near it says. */
async function timeBefore(file: LogFile, offset: number): Promise<number | null> {
  const number = await file.jump(offset)
  const nowMs = Date.now()
  const before = file.lines.slice(0, number - file.firstNumber + 1)
  for (const { text } of before.reverse()) {
    const timeMs = timeOfLine(text, nowMs)
    if (timeMs !== null) return timeMs
  }
  return null
}
