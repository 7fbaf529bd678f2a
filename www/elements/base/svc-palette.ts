import { agoWords, type Locale } from './words.js'
import { actionWords } from '../../audit-words.js'
import { t } from '../../words/t.js'
import { errorWords } from '../../words/errors.js'
import { said, css, SvcElement } from '../element.js'
import { html, icon, keyed, type Template } from '../../dom/html.js'
import type { PageContext } from '../../pages/page.js'
import { shownRooms, shownTabs, tabs } from '../../router.js'
import type { FoundGroup } from '../../server/calls.js'
import { may } from '../../state/session.js'
import { serverNow } from '../../server/client.js'

const statuses: Readonly<Record<string, string>> = {
  queued: 'Queued',
  running: 'Running',
  success: 'Success',
  failed: 'Failed'
}
const ending = /^(.*?)(?: · (queued|running|success|failed))? · (\d{4}-\d\d-\d\dT[\d:.]+Z)$/s

/**
 * Returns the subtitle of a search result in words: a time in the reader's format and time zone, a status in the
 * reader's language. Any other text is returned unchanged. Pure.
 */
export function foundWords(subtitle: string, nowMs: number, locale: Locale = {}): string {
  const [, before, status, at] = ending.exec(subtitle) ?? []
  if (before === undefined || at === undefined || Number.isNaN(Date.parse(at))) return subtitle
  const state = status === undefined ? [] : [t(statuses[status] as string)]
  return [before, ...state, agoWords(at, nowMs, locale)].join(' · ')
}

/**
 * Returns how well the typed text matches a title, or null if it does not match. The beginning of the title ranks best,
 * then the beginning of a word, then any position, then its letters in order. Pure.
 */
export function matchRank(typed: string, title: string): number | null {
  const sought = typed.toLowerCase()
  const text = title.toLowerCase()
  if (sought === '') return 0
  if (text.startsWith(sought)) return 4
  if (text.includes(` ${sought}`)) return 3
  if (text.includes(sought)) return 2
  let at = 0
  for (const letter of text) if (letter === sought[at]) at++
  return at === sought.length ? 1 : null
}

interface Entry {
  key: string
  title: string
  subtitle: string
  address: string
}

interface Group {
  words: string
  entries: Entry[]
}

/** Delay between the last key and the request. */
const restMs = 120
const shownCommands = 8
const groupWords: Record<string, string> = {
  projects: 'Projects',
  deployments: 'Deployments',
  'log-sources': 'Log files',
  audit: 'Audit log',
  settings: 'Settings'
}

/**
 * A field that finds pages, commands and records of the server. Property: `context`. Event: `dialogclose`. Keys: Up and
 * Down choose, Enter opens, Escape closes.
 */
export class SvcPalette extends SvcElement {
  static override sheet = css`
    svc-palette dialog {
      width: min(600px, calc(100vw - 32px));
      max-height: min(560px, calc(100dvh - 96px));
      margin-top: min(96px, 12dvh);
      padding: 0;
      border: 0;
      border-radius: 10px;
      background: var(--raised);
      color: var(--text);
      box-shadow: var(--float);

      &::backdrop { background: rgb(0 0 0 / 45%); }
      &[open] { display: grid; grid-template: auto minmax(0, 1fr) / minmax(0, 1fr); }
      > .ask { display: flex; align-items: center; gap: 10px; padding: 0 16px; border-bottom: 1px solid var(--line); }
      > .ask > .icon { color: var(--muted); }
      > .ask > input { min-height: 52px; padding: 0; border: 0; background: none; font-size: var(--size-16); outline: none; }
      > [role=listbox] { overflow-y: auto; padding: 8px; overscroll-behavior: contain; }
      h3 { padding: 8px 10px 4px; color: var(--muted); font-size: var(--size-12); font-weight: 500; }
      [role=option] {
        display: flex;
        align-items: baseline;
        gap: 12px;
        min-height: var(--row);
        padding: 7px 10px;
        border-radius: var(--radius);
        color: inherit;
        cursor: pointer;
      }
      [role=option]:hover { text-decoration: none; }
      [role=option][aria-selected=true] { background: var(--accent-quiet); }
      [role=option] b { flex: none; max-width: 60%; font-weight: 500; }
      [role=option] span { color: var(--muted); font-size: var(--size-13); }
      .state { padding: 24px 10px; }
    }
  `

  context!: PageContext
  #text = ''
  #found: readonly FoundGroup[] = []
  #problem: string | null = null
  #chosen = 0
  #asked = new AbortController()
  #timer: ReturnType<typeof setTimeout> | undefined

  protected override view(): Template {
    const groups = this.#groups()
    const entries = groups.flatMap(group => group.entries)
    this.#chosen = Math.max(0, Math.min(this.#chosen, entries.length - 1))
    const chosen = entries[this.#chosen]
    const close = (event: Event): void => {
      event.preventDefault()
      this.#close()
    }
    return html`
      <dialog aria-label="${t('Search and commands')}" @cancel="${close}" @click="${(event: Event) => this.#clicked(event)}">
        <div class="ask">
          ${icon('search')}
          <input role="combobox" aria-expanded="true" aria-controls="palette-list" aria-autocomplete="list"
            aria-label="${t('Search and commands')}" placeholder="${t('Go to a page, or find a project, deployment or setting…')}"
            aria-activedescendant="${chosen === undefined ? null : `palette-${chosen.key}`}" autocomplete="off"
            spellcheck="false" autofocus=""
            @input="${(event: Event) => this.#typed((event.currentTarget as HTMLInputElement).value)}"
            @keydown="${(event: Event) => this.#pressed(event as KeyboardEvent, entries)}">
        </div>
        <div role="listbox" id="palette-list" aria-label="${t('Results')}">
          ${groups.map(
            group => html`
            <div role="group" aria-label="${group.words}">
              <h3 aria-hidden="true">${group.words}</h3>
              ${group.entries.map(entry =>
                keyed(
                  entry.key,
                  html`
                <a role="option" id="palette-${entry.key}" href="${this.context.client.address(entry.address)}" tabindex="-1"
                  aria-selected="${entry === chosen ? 'true' : 'false'}">
                  <b class="cut">${entry.title}</b><span class="cut">${entry.subtitle}</span>
                </a>`
                )
              )}
            </div>`
          )}
          ${entries.length === 0 ? html`<p class="state muted">${this.#problem ?? t('No results.')}</p>` : null}
        </div>
      </dialog>`
  }

  protected override rendered(): void {
    const dialog = this.querySelector('dialog') as HTMLDialogElement
    if (!dialog.open) dialog.showModal()
    this.querySelector('[aria-selected=true]')?.scrollIntoView({ block: 'nearest' })
  }

  #groups(): Group[] {
    const commands = commandEntries()
      .map(entry => ({ entry, rank: matchRank(this.#text, entry.title) }))
      .filter(({ rank }) => rank !== null)
      .sort((a, b) => (b.rank as number) - (a.rank as number))
      .slice(0, this.#text === '' ? undefined : shownCommands)
      .map(({ entry }) => entry)
    const found = this.#found.map(({ type, items }) => ({
      words: t(groupWords[type] ?? type),
      entries: items.map(item => ({
        key: `${type}-${item.id}`,
        title: type === 'audit' ? actionWords(item.title) : item.title,
        subtitle: foundWords(item.subtitle, serverNow()),
        address: item.href
      }))
    }))
    return [{ words: t('Go to'), entries: commands }, ...found].filter(({ entries }) => entries.length > 0)
  }

  #typed(text: string): void {
    this.#text = text.trim()
    this.#chosen = 0
    clearTimeout(this.#timer)
    this.#asked.abort()
    if (this.#text === '') this.#found = []
    else this.#timer = setTimeout(() => void this.#find(), restMs)
    this.update()
  }

  async #find(): Promise<void> {
    this.#asked = new AbortController()
    const signal = AbortSignal.any([this.#asked.signal, this.signal])
    try {
      this.#found = await this.context.calls.search(this.#text, signal)
      this.#problem = null
    } catch (error) {
      if (signal.aborted) return
      this.#found = []
      this.#problem = errorWords(error)
    }
    this.update()
  }

  #pressed(event: KeyboardEvent, entries: readonly Entry[]): void {
    // During text composition, Enter ends the composition.
    if (event.isComposing) return
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
    if (step !== undefined && entries.length > 0) {
      event.preventDefault()
      this.#chosen = (this.#chosen + step + entries.length) % entries.length
      this.update()
    }
    const chosen = entries[this.#chosen]
    if (event.key === 'Enter' && chosen !== undefined) {
      event.preventDefault()
      this.#close()
      this.context.go(chosen.address)
    }
  }

  /** A click beside the dialog closes it. A click on an entry lets the router follow the link first. */
  #clicked(event: Event): void {
    const target = event.target as Element
    if (target instanceof HTMLDialogElement || target.closest('[role=option]') !== null) {
      queueMicrotask(() => this.#close())
    }
  }

  #close(): void {
    this.dispatchEvent(said('dialogclose'))
  }
}

function commandEntries(): Entry[] {
  const screens = shownRooms().flatMap(({ address, words }) =>
    tabs[address] === undefined ? [{ address, words }] : shownTabs(address)
  )
  return [
    ...screens.map(({ address, words }) => ({ title: t(words), subtitle: '', address })),
    ...(may('create_project') ? [{ title: t('New project'), subtitle: '', address: 'projects?new' }] : []),
    { title: t('Failed deployments'), subtitle: '', address: 'deployments?status=failed' }
  ].map((entry, index) => ({ ...entry, key: `command-${index}` }))
}

/** The elements that www/main.ts registers for the palette. */
export const elements = { 'svc-palette': SvcPalette }
