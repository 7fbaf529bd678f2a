import type { TerminalAvailability } from '../../lib/model/terminal.js'
import type { ShownProject as Project } from '../../lib/model/project.js'
import { html, icon, keyed, type Template } from '../dom/html.js'
import { loaded, type Resource } from '../state/resource.js'
import { SvcFind, SvcTerminal } from '../elements/terminal/svc-terminal.js'
import {
  SvcTerminalKeys,
  createKeptTerminals,
  createTerminalSession,
  type KeptTerminal,
  noteOf,
  noTerminal,
  stateWords,
  type TerminalSession
} from '../elements/terminal/terminal-session.js'
import { terminalPageSheet } from '../elements/terminal/terminal-colors.js'
import type { SessionEvent } from '../state/session.js'
import { t } from '../words/t.js'
import { Page, type PageContext } from './page.js'

/** Sessions survive leaving the page: the user finds the shell unchanged. */
const kept = new WeakMap<PageContext, Kept>()

interface Kept {
  sessions: TerminalSession[]
  shown: string
  count: number
  /** Whether the shells from before a reload were resumed. */
  isResumed: boolean
  /** Called for the visible page. */
  onChange: () => void
}

interface Ground {
  availability: TerminalAvailability
  projects: Project[]
}

/** Shells on the server, one per tab. The query `project` opens one in the directory of that project. */
export class TerminalPage extends Page {
  static override sheet = terminalPageSheet

  #ground!: Resource<Ground>
  #isSpoken = false

  get #kept(): Kept {
    let found = kept.get(this.context)
    if (found === undefined) {
      const made: Kept = { sessions: [], shown: '', count: 0, isResumed: false, onChange: () => {} }
      this.context.session.addEventListener('session', event => {
        if ((event as SessionEvent).reason === null) return
        for (const session of made.sessions) session.close()
        made.sessions = []
      })
      kept.set(this.context, (found = made))
    }
    return found
  }

  /** Resumes the shells from before a reload. */
  #resume(): void {
    const all = this.#kept
    if (all.isResumed) return
    all.isResumed = true
    const storage = createKeptTerminals({ base: document.baseURI, tab: sessionStorage })
    for (const resumed of storage.take()) this.#add(resumed.projectId, resumed)
    addEventListener('pagehide', () => storage.put(all.sessions.flatMap(session => session.kept() ?? [])))
    // The page was restored.
    addEventListener('pageshow', () => void storage.take())
  }

  protected override connected(): void {
    const { client } = this.context
    this.#kept.onChange = () => this.update()
    this.signal.addEventListener('abort', () => {
      this.#kept.onChange = () => {}
    })
    this.#ground = this.resource(async signal => {
      const [availability, projects] = await Promise.all([
        client.ask<TerminalAvailability>('GET', 'api/terminal/available', { signal }),
        client.call('GET /api/projects', { signal })
      ])
      if (availability.available) this.#arrive()
      return { availability, projects }
    })
    this.addEventListener(
      'terminalleave',
      () => this.querySelector<HTMLElement>('[role=tab][aria-selected=true]')?.focus(),
      {
        signal: this.signal
      }
    )
  }

  protected override moved(): void {
    if (this.#ground.value?.availability.available === true) this.#arrive()
  }

  /** Shows the session of the address, or opens a new one. */
  #arrive(): void {
    this.#resume()
    const projectId = this.place.query.get('project')
    const { sessions } = this.#kept
    const fitting = sessions.findLast(session => projectId === null || session.projectId === projectId)
    if (fitting === undefined) this.#open(projectId)
    else if (projectId !== null || this.#kept.shown === '') this.#show(fitting)
  }

  #open(projectId: string | null): void {
    this.#show(this.#add(projectId))
  }

  #add(projectId: string | null, resumed?: KeptTerminal): TerminalSession {
    const all = this.#kept
    const session = createTerminalSession({
      key: `terminal-${++all.count}`,
      client: this.context.client,
      projectId,
      resumed,
      onChange: () => all.onChange()
    })
    all.sessions.push(session)
    return session
  }

  #show(session: TerminalSession): void {
    this.#kept.shown = session.key
    session.hasRung = false
    this.update()
    // After rendering.
    setTimeout(() => session.element.focus())
  }

  #close(session: TerminalSession): void {
    session.close()
    const all = this.#kept
    const at = all.sessions.indexOf(session)
    all.sessions.splice(at, 1)
    const next = all.sessions[Math.min(at, all.sessions.length - 1)]
    if (all.shown === session.key && next !== undefined) this.#show(next)
    this.update()
  }

  protected override view(): Template {
    const shown = this.#kept.sessions.find(session => session.key === this.#kept.shown)
    this.entitle(shown === undefined ? t('Terminal') : `${this.#nameOf(shown)} · ${t('Terminal')}`, [
      { words: t('Terminal') }
    ])
    return html`${loaded(this.#ground, t('the terminal'), ground =>
      ground.availability.available ? this.#page(ground) : noTerminal(ground.availability)
    )}`
  }

  #page({ projects }: Ground): Template {
    const { sessions, shown } = this.#kept
    const wanted = this.place.query.get('project') ?? ''
    return html`
      <div class="bar">
        <h1>${t('Terminal')}</h1>
        <div class="sessions" @keydown="${(event: Event) => this.#key(event as KeyboardEvent)}">
          ${
            sessions.length === 0
              ? null
              : html`<div role="tablist" aria-label="${t('Sessions')}" aria-owns="${sessions.map(({ key }) => `${key}-tab`).join(' ')}"></div>`
          }
          ${sessions.map(session => keyed(session.key, this.#tab(session, session.key === shown)))}
        </div>
        <form class="tools" @submit="${(event: Event) => this.#submitted(event)}">
          ${sessions.length === 0 ? null : html`<span class="leave muted small">${t('Ctrl-F6 leaves the terminal')}</span>`}
          <label class="check">
            <input type="checkbox" .checked="${this.#isSpoken}" @change="${() => this.#speak()}">
            <span>${t('Read output aloud')}</span>
          </label>
          <select name="project" aria-label="${t('Directory of a new session')}">
            <option value="">${t('Home directory')}</option>
            ${projects.map(({ id, name }) => keyed(id, html`<option value="${id}" selected="${id === wanted}">${name}</option>`))}
          </select>
          <button>${icon('plus')}<span>${t('New session')}</span></button>
        </form>
      </div>
      <div class="stage">
        ${sessions.length === 0 ? this.#empty() : null}
        ${sessions.map(session => keyed(session.key, this.#panel(session, session.key === shown)))}
      </div>`
  }

  #tab(session: TerminalSession, isShown: boolean): Template {
    const name = this.#nameOf(session)
    const state = session.link?.state ?? 'connecting'
    const words = stateWords(state)
    return html`
      <div class="tab">
        <button type="button" role="tab" id="${session.key}-tab" aria-controls="${session.key}"
          aria-selected="${isShown ? 'true' : 'false'}" tabindex="${isShown ? '0' : '-1'}" title="${name}"
          @click="${() => this.#show(session)}">
          <span class="${`dot ${session.hasRung && !isShown ? 'rung' : state}`}"></span>
          <span class="cut" translate="no">${name}</span>
          ${words === '' ? null : html`<span class="unseen">${words}</span>`}
        </button>
        <button type="button" class="quiet close" @click="${() => this.#close(session)}">
          ${icon('close')}<span class="unseen" translate="no">${t('End the session {name}', { name })}</span>
        </button>
      </div>`
  }

  #panel(session: TerminalSession, isShown: boolean): Template {
    return html`
      <div role="tabpanel" id="${session.key}" aria-labelledby="${session.key}-tab" hidden="${!isShown}">
        ${session.element}
        <svc-terminal-keys .terminal="${session.element}"></svc-terminal-keys>
        <div role="status">${noteOf(session, () => this.#again(session))}</div>
      </div>`
  }

  #again(session: TerminalSession): void {
    session.restart()
    session.element.focus()
  }

  #empty(): Template {
    return html`
      <div class="card state">
        <h2>${t('No session is open')}</h2>
        <p class="muted">${t('A session is a shell on the server. It keeps running while you view other pages, and ends when its tab is closed.')}</p>
        <button type="button" class="primary" @click="${() => this.#open(null)}">${t('New session')}</button>
      </div>`
  }

  #nameOf(session: TerminalSession): string {
    if (session.title !== '') return session.title
    const project = this.#ground.value?.projects.find(({ id }) => id === session.projectId)
    return project?.name ?? session.link?.ready?.shell.split('/').at(-1) ?? t('Shell')
  }

  #submitted(event: Event): void {
    event.preventDefault()
    const projectId = new FormData(event.target as HTMLFormElement).get('project')
    this.#open(projectId === '' ? null : String(projectId))
  }

  #speak(): void {
    this.#isSpoken = !this.#isSpoken
    for (const { element } of this.#kept.sessions) element.toggleAttribute('spoken', this.#isSpoken)
  }

  /** Moves between tabs with the arrow keys. */
  #key(event: KeyboardEvent): void {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key]
    const { sessions, shown } = this.#kept
    const at = sessions.findIndex(({ key }) => key === shown)
    const next = step === undefined ? undefined : sessions[(at + step + sessions.length) % sessions.length]
    if (next === undefined) return
    event.preventDefault()
    this.#kept.shown = next.key
    next.hasRung = false
    this.update()
    queueMicrotask(() => this.querySelector<HTMLElement>(`#${next.key}-tab`)?.focus())
  }
}

export const elements = {
  'svc-page-terminal': TerminalPage,
  'svc-terminal': SvcTerminal,
  'svc-terminal-keys': SvcTerminalKeys,
  'svc-find': SvcFind
}
