import { agoWords, type Locale } from './words.js'
import { actionWords } from '../../audit-words.js'
import { language, t, errorWords } from '../../words/t.js'
import { said, css, SvcElement } from '../element.js'
import { html, icon, keyed, type Template } from '../../dom/html.js'
import type { PageContext } from '../../pages/page.js'
import { shownRooms, shownTabs, tabs } from '../../router.js'
import type { FoundGroup } from '../../server/requests.js'
import { serverNow } from '../../server/client.js'
import { may, type Right } from '../../state/session.js'

const statuses: Readonly<Record<string, string>> = {
  queued: 'Queued',
  running: 'Running',
  success: 'Success',
  failed: 'Failed'
}
const ending = / · (queued|running|success|failed)(?= · \d{4}-\d\d-\d\dT[\d:.]+Z$)/
const instant = /\d{4}-\d\d-\d\dT[\d:.]+Z/g

/**
 * Returns the subtitle of a search result in words: times in the reader's format and time zone, a status in the reader's
 * language. Any other text is returned unchanged. Pure.
 */
export function foundWords(subtitle: string, nowMs: number, locale: Locale = {}): string {
  return subtitle
    .replace(ending, (_, status: string) => ` · ${t(statuses[status] as string)}`)
    .replace(instant, at => (Number.isNaN(Date.parse(at)) ? at : agoWords(at, nowMs, locale)))
}

/** Something that can be done to a project. Its page opens with the dialog: nothing happens without it. */
interface Command {
  /** The first ones are shown. English and Chinese are understood in both languages. */
  verbs: readonly [english: string, chinese: string, ...others: string[]]
  /** English, passed to t(). */
  words: string
  right: Right | null
  /** What follows the address of the project. */
  address: string
}

const commands: readonly Command[] = [
  {
    verbs: ['deploy', '部署', 'deploy to', 'push', 'push to'],
    words: 'Deploy to {name}…',
    right: 'deploy',
    address: '?do=deploy'
  },
  {
    verbs: ['roll back', '回滚', 'rollback', 'go back'],
    words: 'Roll back {name}…',
    right: 'rollback',
    address: '?do=roll_back'
  },
  { verbs: ['promote', '提升'], words: 'Promote {name}…', right: 'promote', address: '?do=promote' },
  { verbs: ['lock', '锁定'], words: 'Lock {name}…', right: 'lock', address: '?do=lock' },
  {
    verbs: ['maintenance of', '维护', 'maintain', 'begin maintenance of', 'maintenance'],
    words: 'Begin the maintenance of {name}…',
    right: 'maintain',
    address: '?do=maintain'
  },
  {
    verbs: ['open logs of', '日志', 'logs of', 'logs', 'open logs'],
    words: 'Open the logs of {name}',
    right: null,
    address: '/logs'
  },
  {
    verbs: ['files of', '文件', 'files', 'open files of'],
    words: 'Open the files of {name}',
    right: 'files',
    address: '/files'
  },
  {
    verbs: ['settings of', '设置', 'open settings of'],
    words: 'Open the settings of {name}',
    right: 'change_project',
    address: '/settings'
  }
]

/** Number of commands that are offered for a project that was named without one. */
const offeredCommands = 4
/** Number of letters from which the beginning of a command is one. */
const leastLetters = 2

/** Returns the commands that a text begins, each with the name after it; the name is empty while the verb is typed. Pure. */
export function commandsIn(text: string): Array<{ command: Command; name: string }> {
  const typed = text.toLowerCase()
  return commands.flatMap(command => {
    if (command.right !== null && !may(command.right)) return []
    const longestFirst = [...command.verbs].sort((a, b) => b.length - a.length)
    // Chinese needs no space.
    const verb = longestFirst.find(verb => typed.startsWith(verb) && !/^\w\w/.test(typed.slice(verb.length - 1)))
    if (verb !== undefined) return [{ command, name: text.slice(verb.length).trim() }]
    const isBegun = typed.length >= leastLetters && command.verbs.some(verb => verb.startsWith(typed))
    return isBegun ? [{ command, name: '' }] : []
  })
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
  /** The entry writes this into the field instead of opening an address. */
  fill?: string
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
 * A field that finds pages, commands and records of the server. Properties: `context`, `begun`. Event: `dialogclose`. Keys: Up and
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
  /** The text of the field at first. */
  begun = ''
  #text = ''
  #found: readonly FoundGroup[] = []
  /** The projects that a command names, or that the text itself is the name of. */
  #named: ReadonlyArray<FoundGroup['items'][number]> = []
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
                  aria-selected="${entry === chosen ? 'true' : 'false'}" @click="${(event: Event) => this.#fill(event, entry)}">
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
    if (!dialog.open) {
      dialog.showModal()
      if (this.begun !== '') this.#write(this.begun)
    }
    this.querySelector('[aria-selected=true]')?.scrollIntoView({ block: 'nearest' })
  }

  /** The groups of results: what has exactly this name first, then commands with a project, screens, and the rest. */
  #groups(): Group[] {
    const screens = screenEntries()
      .map(entry => ({ entry, rank: matchRank(this.#text, entry.title) }))
      .filter(({ rank }) => rank !== null)
      .sort((a, b) => (b.rank as number) - (a.rank as number))
      .slice(0, this.#text === '' ? undefined : shownCommands)
      .map(({ entry }) => entry)
    const found = this.#found.map(({ type, items }) => ({
      words: t(groupWords[type] ?? type),
      entries: exactFirst(items, this.#text).map(item => ({
        key: `${type}-${item.id}`,
        title: type === 'audit' ? actionWords(item.title) : item.title,
        subtitle: foundWords(item.subtitle, serverNow()),
        address: item.href
      }))
    }))
    const isNamed = found[0]?.entries.some(({ title }) => isSame(title, this.#text)) === true
    const commands = { words: t('Commands'), entries: this.#commands() }
    const goTo = { words: t('Go to'), entries: screens }
    const isCommand = commands.entries.some(({ fill }) => fill === undefined)
    const others = isCommand ? [commands, goTo] : [goTo, commands]
    const groups = isNamed ? [...found.slice(0, 1), ...others, ...found.slice(1)] : [...others, ...found]
    return groups.filter(({ entries }) => entries.length > 0)
  }

  #commands(): Entry[] {
    const entry = ({ words, address }: Command, { id, title, subtitle }: FoundGroup['items'][number]): Entry => ({
      key: `do-${address.replace(/\W/g, '')}-${id}`,
      title: t(words, { name: title }),
      subtitle,
      address: `projects/${id}${address}`
    })
    const begun = commandsIn(this.#text)
    if (begun.length === 0) {
      const project = this.#named.find(({ title }) => isSame(title, this.#text))
      if (project === undefined) return []
      const allowed = commands.filter(({ right }) => right === null || may(right))
      return allowed.slice(0, offeredCommands).map(command => entry(command, project))
    }
    return begun.flatMap(({ command, name }) => {
      if (name !== '') return exactFirst(this.#named, name).map(project => entry(command, project))
      const [english, chinese] = command.verbs
      return [
        {
          key: `say-${command.address.replace(/\W/g, '')}`,
          title: t(command.words, { name: '' }).replace('…', '').trim(),
          subtitle: t('then the name of a project'),
          address: '',
          fill: `${language() === 'zh' ? chinese : english} `
        }
      ]
    })
  }

  /** Writes the beginning of a command into the field. */
  #fill(event: Event, { fill }: Entry): void {
    if (fill === undefined) return
    event.preventDefault()
    event.stopPropagation()
    this.#write(fill)
  }

  #write(text: string): void {
    const field = this.querySelector('input') as HTMLInputElement
    field.value = text
    field.focus()
    this.#typed(text)
  }

  #typed(text: string): void {
    this.#text = text.trim()
    this.#chosen = 0
    clearTimeout(this.#timer)
    this.#asked.abort()
    if (this.#text === '') this.#found = this.#named = []
    else this.#timer = setTimeout(() => void this.#find(), restMs)
    this.update()
  }

  async #search(q: string, signal: AbortSignal): Promise<readonly FoundGroup[]> {
    const { groups } = await this.context.client.call('GET /api/search', { query: { q }, signal })
    return groups.filter(({ items }) => items.length > 0)
  }

  async #find(): Promise<void> {
    this.#asked = new AbortController()
    const signal = AbortSignal.any([this.#asked.signal, this.signal])
    try {
      const name = commandsIn(this.#text).find(({ name }) => name !== '')?.name
      const [found, named] = await Promise.all([
        this.#search(this.#text, signal),
        name === undefined ? null : this.#search(name, signal)
      ])
      this.#found = found
      this.#named = (named ?? found).find(({ type }) => type === 'projects')?.items ?? []
      this.#problem = null
    } catch (error) {
      if (signal.aborted) return
      this.#found = this.#named = []
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
      if (chosen.fill !== undefined) return this.#fill(event, chosen)
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

const isSame = (a: string, b: string): boolean => a.toLowerCase() === b.toLowerCase()

/** Returns the results with the exact name first. */
function exactFirst<T extends { title: string }>(items: readonly T[], text: string): T[] {
  return [...items].sort((a, b) => Number(isSame(b.title, text)) - Number(isSame(a.title, text)))
}

function screenEntries(): Entry[] {
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
