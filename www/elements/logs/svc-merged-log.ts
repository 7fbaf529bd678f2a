import { notice, type Said, css, SvcElement } from '../element.js'
import type { LogSource } from '../../../lib/model/log-source.js'
import { html, icon, type Template } from '../../dom/html.js'
import { serverNow, type Client, type Connection } from '../../server/client.js'
import { LogFile } from '../../state/log-file.js'
import { SvcLog } from './svc-log.js'
import { focusSearch, pressForSearch, SvcLogSearch } from './svc-log-search.js'
import { isNothing, noSought, patternOf, type Sought } from '../../state/log-search.js'
import type { LogLine } from '../../state/held-lines.js'
import { type MergedHit, MergedLog, MergedSearch } from '../../state/merged-log.js'
import { timeOfLine } from '../../shared/log-line.js'
import { mergedFormat } from './log-format.js'
import { LevelFilter } from './level-filter.js'
import { t, errorWords } from '../../words/t.js'

/** Larger than for a single file: all merged lines are kept in memory until they are dropped. */
const limits = { maxLines: 300_000 }

/**
 * Several log files as one, in the order of the times in their lines, with one search. Properties, set before it enters
 * the page: `sources`, `client`, `connection`. Keys: those of `svc-log`; `/` focuses the search, `n` and `N` go to the
 * next and the previous hit.
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
  client!: Client
  connection!: Connection
  #files: LogFile[] = []
  #merged: MergedLog | null = null
  #search: MergedSearch | null = null
  #isSearching = false
  #filter!: LevelFilter

  protected override connected(): void {
    const { client, connection, signal } = this
    this.#files = this.sources.map(
      ({ id }) => new LogFile({ id, client, onConnection: state => connection.set(state), signal, limits })
    )
    this.#merged = new MergedLog({ parts: this.#files, signal })
    this.#filter = new LevelFilter({ element: this, text: this.#merged, onChange: () => this.update(), signal })
    for (const file of this.#files) {
      file.addEventListener('change', () => this.update(), { signal })
      void file.open()
    }
    signal.addEventListener('abort', () => this.#search?.cancel())
    this.listen(this, 'keydown', event => {
      pressForSearch(event as KeyboardEvent, this, () => (this.#isSearching ? focusSearch(this) : this.#switchSearch()))
    })
  }

  protected override view(): Template {
    const problems = this.#files.flatMap((file, index) =>
      file.problem === null ? [] : [{ file, source: this.sources[index] }]
    )
    return html`
      <div class="said" role="status">
        ${problems.map(
          ({ file, source }) => html`
          <p>${icon('warning')}<span>${source?.label}: ${file.problem}</span></p>`
        )}
      </div>
      <div class="parts">
        <svc-log class="tall" wrap="" heading="${t('Merged by time')}" .output="${this.#filter.text}" .format="${mergedFormat}"
          .none="${this.#filter.none}"
          .pattern="${this.#search === null ? null : patternOf(this.#search.sought)}"
          .sources="${this.#labels}" .tools="${this.#tools()}"
          @logview="${(event: Event) => this.#filter.viewed(event as Said<'logview'>)}"></svc-log>
        ${
          this.#isSearching
            ? html`
            <svc-log-search .sources="${this.#labels}" .search="${this.#search}"
              @logsought="${(event: Event) => this.#ask((event as Said<'logsought'>).sought)}"
              @loghit="${(event: Event) => void this.#show((event as Said<'loghit'>).hit as MergedHit)}"></svc-log-search>`
            : null
        }
      </div>`
  }

  #tools(): Template {
    return html`
      ${this.#filter.field()}
      <button type="button" class="quiet" aria-pressed="${this.#isSearching ? 'true' : 'false'}"
        aria-keyshortcuts="/" @click="${() => this.#switchSearch()}">${icon('search')}<span>${t('Search')}</span></button>`
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
      const search = new MergedSearch(
        sought,
        this.sources.map(({ label }) => label)
      )
      this.#search = search
      void search.run(
        this.client,
        this.sources.map(({ id }) => id)
      )
    }
    this.update()
  }

  async #show({ source, offset, text, timeMs }: MergedHit): Promise<void> {
    try {
      const atMs = timeMs ?? (await timeBefore(this.#files[source] as LogFile, offset))
      const isHit = (line: LogLine): boolean => line.source === source && line.text.startsWith(text)
      const number = atMs === null ? null : await this.#merged?.jump(atMs, isHit)
      if (typeof number === 'number') this.#filter.reveal(number)
    } catch (error) {
      if (!this.signal.aborted) this.dispatchEvent(notice(errorWords(error), 'failed'))
    }
  }

  /** Returns the same object each time, so that the log is not rebuilt. */
  get #labels(): ReadonlyArray<{ words: string }> {
    return (this.#shownLabels ??= this.sources.map(({ label }) => ({ words: label })))
  }

  #shownLabels: ReadonlyArray<{ words: string }> | undefined
}

/** Returns the time of the last line with a time before an offset, or null if no line near it has one. */
async function timeBefore(file: LogFile, offset: number): Promise<number | null> {
  const number = await file.jump(offset)
  const nowMs = serverNow()
  const before = file.lines.slice(0, number - file.firstNumber + 1)
  for (const { text } of before.reverse()) {
    const timeMs = timeOfLine(text, nowMs)
    if (timeMs !== null) return timeMs
  }
  return null
}

/** The elements of a page that shows log files merged. */
export const elements = {
  'svc-merged-log': SvcMergedLog,
  'svc-log': SvcLog,
  ...SvcLog.parts,
  'svc-log-search': SvcLogSearch
}
