import { type Sought, noSought, type LogSearching, patternOf } from '../../state/log-search.js'
import { countWords, t } from '../../words/t.js'
import { type Hit, said, css, SvcElement } from '../element.js'
import { html, icon, keyed, type Template } from '../../dom/html.js'
import { stripAnsi } from './log-format.js'
import { levelOfLine } from '../../shared/log-line.js'
import { errorLine } from '../base/form.js'
import { levelChoice, levelOf } from './level-filter.js'
import { hitsIn } from './log-line.js'
import { formatBytes } from '../../shared/api.js'

/** Number of hits shown at first, and added each time the reader asks for more. */
const shownHits = 100
const shownCharacters = 240

/**
 * Searches one or several log files: the form, and the hits as they arrive. Properties: `search`, the current or last
 * search, or null; `sources`, the names of the files if there are several. Events: `logsought`, `loghit`. Keys: Enter
 * searches; Up and Down move between the hits.
 */
export class SvcLogSearch extends SvcElement {
  static override sheet = css`
    svc-log-search {
      display: grid;
      grid-template: auto minmax(0, 1fr) / minmax(0, 1fr);
      min-height: 0;

      form { display: grid; gap: 8px; padding: 12px; border-bottom: 1px solid var(--line); }
      form > div { display: flex; flex-wrap: wrap; align-items: center; gap: 4px 12px; }
      form .field-line { flex-wrap: nowrap; gap: 8px; }
      form .check { min-height: 24px; font-size: var(--size-13); gap: 6px; }
      form p { flex: 1; min-width: 120px; font-size: var(--size-13); }
      form select { width: auto; min-height: 32px; font-size: var(--size-13); }
      details { font-size: var(--size-13); }
      summary { color: var(--muted); cursor: pointer; }
      .times { display: flex; flex-wrap: wrap; gap: 8px; padding-top: 8px; }
      .times label { flex: 1 1 210px; display: grid; gap: 4px; min-width: 0; }
      .times input { width: 100%; min-width: 0; font-size: var(--size-13); }
      progress { width: 100%; height: 4px; accent-color: var(--accent); }

      .hits { overflow-y: auto; min-height: 0; overscroll-behavior: contain; }
      .hits li + li { border-top: 1px solid var(--line); }
      .hits button {
        display: grid;
        justify-content: start;
        justify-items: start;
        gap: 0;
        width: 100%;
        min-height: 0;
        padding: 8px 12px;
        border: 0;
        border-radius: 0;
        background: none;
        color: var(--muted);
        font: var(--size-12) / 1.4 var(--mono);
        text-align: left;
        white-space: pre-wrap;
        overflow-wrap: anywhere;
      }
      .hits button[data-level='error'] { box-shadow: inset 3px 0 var(--ansi-1); }
      .hits button[data-level='warn'] { box-shadow: inset 3px 0 var(--ansi-3); }
      .hits button:focus-visible { outline-offset: -2px; }
      .hits button[aria-current] { background: var(--accent-quiet); box-shadow: inset 3px 0 var(--accent); }
      .hits .of { max-width: 100%; color: var(--accent); font-family: var(--sans); }
      .hits b { color: var(--log-text); font-weight: 400; }
      .hits mark { background: var(--warning-quiet); color: inherit; box-shadow: 0 1px var(--warning); }
      .hits .more { color: var(--accent); font-family: var(--sans); }
    }
  `

  sources: ReadonlyArray<{ words: string }> = []
  #search: LogSearching | null = null
  #detach = new AbortController()
  #shown = shownHits
  #current: Hit | null = null

  get search(): LogSearching | null {
    return this.#search
  }

  set search(search: LogSearching | null) {
    if (search === this.#search) return
    this.#detach.abort()
    this.#detach = new AbortController()
    this.#search = search
    this.#shown = shownHits
    this.#current = null
    search?.addEventListener('change', () => this.update(), { signal: this.#detach.signal })
    this.update()
  }

  /** Goes to the next hit, or to the previous one. */
  step(by: 1 | -1): void {
    const hits = this.#search?.hits ?? []
    if (hits.length === 0) return
    const at = this.#current === null ? (by === 1 ? -1 : 0) : hits.indexOf(this.#current)
    if (by === 1 && at === hits.length - 1 && this.#search?.hasOlder === true) return this.#older()
    this.#choose(hits[(at + by + hits.length) % hits.length] as Hit)
  }

  protected override view(): Template {
    const search = this.#search
    const sought = search?.sought ?? noSought
    const hasTimes = typeof sought.sinceMs === 'number' || typeof sought.untilMs === 'number'
    const hits = search?.hits ?? []
    const label = this.sources.length === 0 ? t('Search the whole file') : t('Search these files')
    const check = (name: string, words: string, isOn: boolean): Template => html`
      <label class="check"><input type="checkbox" name="${name}" .checked="${isOn}">${words}</label>`
    return html`
      <form role="search" @submit="${(event: Event) => this.#ask(event)}">
        <div class="field-line">
          <input type="search" name="q" aria-label="${label}" placeholder="${label}"
            autocomplete="off" autocapitalize="off" spellcheck="false" .value="${sought.q}">
          <button class="primary">${t('Search')}</button>
        </div>
        <div>
          ${check('regex', t('Regular expression'), sought.isRegex)}
          ${check('cased', t('Match case'), search !== null && !sought.ignoresCase)}
          ${levelChoice(sought.level ?? null)}
        </div>
        <details .open="${hasTimes}">
          <summary>${t('Time range')}</summary>
          <div class="times">
            <label>${t('From')}<input name="since" type="datetime-local" step="1" .value="${localTime(sought.sinceMs)}"></label>
            <label>${t('Until')}<input name="until" type="datetime-local" step="1" .value="${localTime(sought.untilMs)}"></label>
          </div>
        </details>
        ${search === null ? null : this.#status(search)}
      </form>
      <div class="hits">
        ${
          search === null
            ? null
            : html`
            <ol translate="no" aria-label="${t('Hits')}" @keydown="${(event: Event) => this.#key(event as KeyboardEvent)}">
              ${hits.slice(0, this.#shown).map(hit => keyed(`${hit.source ?? ''} ${hit.offset}`, this.#hit(hit, search.sought)))}
            </ol>
            ${
              hits.length > this.#shown || search.hasOlder
                ? html`<button type="button" class="more" @click="${() => this.#older()}">${t('Older hits')}</button>`
                : null
            }`
        }
      </div>`
  }

  protected override rendered(): void {
    const { progress, state } = this.#search ?? {}
    const bar = this.querySelector('progress')
    if (bar === null || state !== 'running') return
    if (progress === null || progress === undefined) bar.removeAttribute('value')
    else bar.value = progress.done / Math.max(1, progress.all)
  }

  #status(search: LogSearching): Template {
    const { state, hits, progress, problem } = search
    const count = countWords(hits.length, 'hit')
    const words = {
      running:
        progress === null
          ? count
          : t('{hits} in {done} of {all}', {
              hits: count,
              done: formatBytes(progress.done),
              all: formatBytes(progress.all)
            }),
      done:
        hits.length > 0
          ? count
          : this.sources.length === 0
            ? t('Not found in this file.')
            : t('Not found in these files.'),
      cut: t('The newest {hits}; there are older hits.', { hits: count }),
      cancelled: t('{hits}; search stopped.', { hits: count }),
      failed: count
    }[state]
    return html`
      <div>
        <p class="muted number" role="status">${words}</p>
        ${
          state === 'running'
            ? html`<button type="button" @click="${() => search.cancel()}">${t('Stop')}</button>`
            : hits.length === 0
              ? null
              : html`
              <button type="button" class="quiet" title="${t('Previous hit')}" @click="${() => this.step(-1)}">
                ${icon('up')}<span class="unseen">${t('Previous hit')}</span>
              </button>
              <button type="button" class="quiet" title="${t('Next hit')}" @click="${() => this.step(1)}">
                ${icon('down')}<span class="unseen">${t('Next hit')}</span>
              </button>`
        }
      </div>
      ${state === 'running' ? html`<progress max="1" aria-label="${t('Searching')}"></progress>` : null}
      ${errorLine(problem)}`
  }

  #hit(hit: Hit, sought: Sought): Template {
    const around = (lines: readonly string[]): string => lines.map(line => `${short(stripAnsi(line))}\n`).join('')
    return html`
      <li>
        <button type="button" data-level="${levelOfLine(hit.text)}" aria-current="${hit === this.#current ? 'true' : null}" @click="${() => this.#choose(hit)}">
          ${hit.source === undefined ? null : html`<span class="of cut">${this.sources[hit.source]?.words}</span>`}
          <span>${around(hit.before)}<b>${marked(stripAnsi(hit.text), sought)}</b>${hit.after.length === 0 ? null : `\n${around(hit.after).trimEnd()}`}</span>
        </button>
      </li>`
  }

  #ask(event: Event): void {
    event.preventDefault()
    const form = new FormData(event.currentTarget as HTMLFormElement)
    this.dispatchEvent(
      said('logsought', {
        sought: {
          q: String(form.get('q') ?? ''),
          isRegex: form.has('regex'),
          ignoresCase: !form.has('cased'),
          level: levelOf(form.get('level')),
          sinceMs: timeOf(form.get('since')),
          untilMs: timeOf(form.get('until'))
        }
      })
    )
  }

  #choose(hit: Hit): void {
    this.#current = hit
    const at = this.#search?.hits.indexOf(hit) ?? 0
    this.#shown = Math.max(this.#shown, at + 1)
    this.update()
    // Waits until the hit is marked: keys can move beyond the visible hits.
    setTimeout(() => this.querySelector('[aria-current=true]')?.scrollIntoView({ block: 'nearest' }))
    this.dispatchEvent(said('loghit', { hit }))
  }

  /** Shows hits that were found but not shown yet. If there are none, requests older hits. */
  #older(): void {
    const search = this.#search
    this.#shown += shownHits
    if (search !== null && search.hits.length < this.#shown) search.older()
    this.update()
  }

  #key(event: KeyboardEvent): void {
    const buttons = [...this.querySelectorAll<HTMLElement>('.hits li button')]
    const at = buttons.indexOf(document.activeElement as HTMLElement)
    const to = { ArrowDown: at + 1, ArrowUp: at - 1 }[event.key]
    if (to === undefined) return
    event.preventDefault()
    buttons[Math.max(0, Math.min(buttons.length - 1, to))]?.focus()
  }
}

/** Handles `/` (focuses the search), `n` and `N` (next and previous hit). Returns whether the key was one of them. */
export function pressForSearch(event: KeyboardEvent, host: HTMLElement, begin: () => void): boolean {
  const target = event.target as HTMLElement
  if (event.ctrlKey || event.metaKey || event.altKey || target.closest('input, textarea, select') !== null) return false
  const search = host.querySelector('svc-log-search') as SvcLogSearch | null
  if (event.key === '/') begin()
  else if ((event.key === 'n' || event.key === 'N') && search !== null) search.step(event.key === 'n' ? 1 : -1)
  else return false
  event.preventDefault()
  return true
}

/** Focuses the search. It is on the page after two renderings: that of its host, then its own. */
export function focusSearch(host: HTMLElement): void {
  setTimeout(() => host.querySelector<HTMLElement>('svc-log-search input[type=search]')?.focus())
}

/** Formats a time as the field needs it: local time without a zone. Returns an empty text for null. */
function localTime(ms: number | null | undefined): string {
  if (typeof ms !== 'number') return ''
  return new Date(ms - new Date(ms).getTimezoneOffset() * 60_000).toISOString().slice(0, 19)
}

function timeOf(given: unknown): number | null {
  const ms = given === null || given === '' ? Number.NaN : new Date(String(given)).getTime()
  return Number.isNaN(ms) ? null : ms
}

const short = (text: string): string => (text.length > shownCharacters ? `${text.slice(0, shownCharacters)}…` : text)

/** Marks the hits of a line. A hit far to the right is moved into view. */
function marked(text: string, sought: Sought): unknown[] {
  const pattern = patternOf(sought)
  const first = pattern === null ? undefined : hitsIn(text, pattern)[0]
  const from = first === undefined ? 0 : Math.max(0, first.to - shownCharacters + 40)
  const shown = `${from > 0 ? '…' : ''}${short(text.slice(from))}`
  const parts: unknown[] = []
  let at = 0
  for (const { from, to } of pattern === null ? [] : hitsIn(shown, pattern)) {
    parts.push(shown.slice(at, from), html`<mark>${shown.slice(from, to)}</mark>`)
    at = to
  }
  return [...parts, shown.slice(at)]
}
