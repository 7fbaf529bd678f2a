import { css, SvcElement } from '../element.js'
import { html, type Template } from '../../dom/html.js'
import type { KeyPress } from '../../terminal/keys.js'
import { t, serverWords, twoLines } from '../../words/t.js'
import type { SvcTerminal } from './svc-terminal.js'
import type { TokenStorage } from '../../state/session.js'
import { openTerminal, type TerminalEnd, type TerminalLink, type TerminalState } from '../../server/terminal.js'
import type { Client } from '../../server/client.js'
import type { TerminalAvailability } from '../../../lib/model/terminal.js'

/** The label of a button, its name if the label is not a word, and the key. */
const keys: ReadonlyArray<{ face: string; name?: () => string; press: KeyPress }> = [
  { face: 'Esc', press: { key: 'Escape' } },
  { face: 'Tab', press: { key: 'Tab' } },
  { face: 'Ctrl C', press: { key: 'c', isControl: true } },
  { face: 'Ctrl D', press: { key: 'd', isControl: true } },
  { face: 'Ctrl R', press: { key: 'r', isControl: true } },
  { face: '↑', name: () => t('Up'), press: { key: 'ArrowUp' } },
  { face: '↓', name: () => t('Down'), press: { key: 'ArrowDown' } },
  { face: '←', name: () => t('Left'), press: { key: 'ArrowLeft' } },
  { face: '→', name: () => t('Right'), press: { key: 'ArrowRight' } }
]

/**
 * Keys that on-screen keyboards do not have. Visible only on touch devices. Property: `terminal`, which receives the
 * keys.
 */
export class SvcTerminalKeys extends SvcElement {
  static override sheet = css`
    svc-terminal-keys {
      display: none;
      gap: 4px;
      padding: 4px;
      border-top: 1px solid var(--line);
      background: var(--raised);
      overflow-x: auto;
      scrollbar-width: none;

      @media (pointer: coarse) { display: flex; }
      button { flex: 1 0 auto; min-width: 40px; min-height: 40px; padding: 0 8px; font-size: var(--size-13); }
    }
  `

  terminal: SvcTerminal | undefined

  protected override connected(): void {
    this.setAttribute('role', 'toolbar')
    this.setAttribute('aria-label', t('Keys missing on a phone'))
    // The on-screen keyboard stays open, because the terminal keeps the focus.
    this.listen(this, 'mousedown', event => event.preventDefault())
  }

  protected override view(): Template {
    return html`
      ${keys.map(
        ({ face, name, press }) => html`
        <button type="button" class="quiet" aria-label="${name?.() ?? null}" translate="no"
          @click="${() => this.terminal?.press(press)}">${face}</button>`
      )}`
  }
}

/** A session whose shell continues while its page is reloaded. */
export interface KeptTerminal {
  sessionId: string
  projectId: string | null
  /** Bytes of its output that were shown. The next page shows them again without answering queries in them again. */
  receivedBytes: number
  columns: number
  rows: number
}

/** Creates the store of the sessions that survive a reload of the page, in the storage of the tab. */
export function createKeptTerminals({ base, tab }: { base: string; tab: TokenStorage }) {
  const key = `svc.terminals ${base}`
  return {
    put(sessions: readonly KeptTerminal[]): void {
      if (sessions.length === 0) tab.removeItem(key)
      else tab.setItem(key, JSON.stringify(sessions))
    },

    /** Returns the stored sessions and removes them, because two pages cannot share a session. */
    take(): KeptTerminal[] {
      const text = tab.getItem(key)
      tab.removeItem(key)
      try {
        return (JSON.parse(text ?? '[]') as unknown[]).filter(isKept)
      } catch {
        return []
      }
    }
  }
}

function isKept(value: unknown): value is KeptTerminal {
  const { sessionId, projectId, ...numbers } = (value ?? {}) as Partial<Record<keyof KeptTerminal, unknown>>
  const areNumbers = [numbers.receivedBytes, numbers.columns, numbers.rows].every(Number.isSafeInteger)
  return typeof sessionId === 'string' && (projectId === null || typeof projectId === 'string') && areNumbers
}

/** A screen and its shell. It continues while other pages are shown. */
export interface TerminalSession {
  readonly key: string
  readonly element: SvcTerminal
  readonly projectId: string | null
  /** Null until the screen has a size, that is before it is shown for the first time. */
  readonly link: TerminalLink | null
  /** The title that the program has set for its window, or empty. */
  readonly title: string
  /** The bell rang since the session was last visible. */
  hasRung: boolean
  /** Returns the state for the next page load, or null if there is no shell. */
  kept(): KeptTerminal | null
  /** Starts a new shell on the same screen after the previous one has ended. */
  restart(): void
  close(): void
}

export interface TerminalSessionNeeds {
  key: string
  client: Client
  projectId: string | null
  /** A session of an earlier page load. */
  resumed?: KeptTerminal | undefined
  onChange: () => void
}

/** Creates a session that begins when its element enters the page. */
export function createTerminalSession({
  key,
  client,
  projectId,
  onChange,
  ...needs
}: TerminalSessionNeeds): TerminalSession {
  const element = document.createElement('svc-terminal') as SvcTerminal
  let link: TerminalLink | null = null
  let title = ''
  let size: { columns: number; rows: number } | null = null
  let resumed = needs.resumed

  const begin = (): void => {
    if (size === null) return
    link = openTerminal({
      client,
      projectId,
      size,
      resumed,
      onData: (text, drawn) => element.write(text, drawn),
      onGap: modes => {
        element.reset()
        element.write(modes)
      },
      onState: onChange
    })
  }
  const session: TerminalSession = {
    key,
    element,
    projectId,
    hasRung: false,
    get link() {
      return link
    },
    get title() {
      return title
    },
    kept() {
      if (link === null || size === null || link.state === 'ended') return null
      // A page that is reloaded at once knows less than the page before it.
      const sessionId = link.ready?.sessionId ?? resumed?.sessionId
      const receivedBytes = Math.max(link.receivedBytes, resumed?.receivedBytes ?? 0)
      return sessionId === undefined ? null : { sessionId, projectId, ...size, receivedBytes }
    },
    restart() {
      link?.close()
      element.reset()
      resumed = undefined
      begin()
      onChange()
    },
    close() {
      link?.close()
      element.remove()
    }
  }

  element.addEventListener('terminalinput', event => link?.send(event.bytes))
  element.addEventListener('terminalsize', event => {
    size = { columns: event.columns, rows: event.rows }
    if (link === null) begin()
    else link.resize(event.columns, event.rows)
  })
  element.addEventListener('terminaltitle', event => {
    title = event.terminalTitle
    onChange()
  })
  element.addEventListener('terminalbell', () => {
    session.hasRung = true
    onChange()
  })
  if (resumed !== undefined) {
    size = { columns: resumed.columns, rows: resumed.rows }
    element.resize(size.columns, size.rows)
    begin()
  }
  return session
}

/** Returns a session's state as a word; empty while it is connected. */
export function stateWords(state: TerminalState): string {
  return { connecting: t('Connecting…'), open: '', lost: t('Connection lost'), ended: t('Ended') }[state]
}

/** Returns the note below the screen of a session, or null. */
export function noteOf({ link }: TerminalSession, onAgain: () => void): Template | null {
  switch (link?.state) {
    case 'open':
      return link.isInputLost
        ? html`
        <div class="note lost">
          <span class="dot lost"></span>
          <p>${t('The last input was dropped: the program does not read what it was given before.')}</p>
        </div>`
        : null
    case 'ended':
      return html`
        <div class="note ended">
          <p>${endWords(link.end as TerminalEnd)}</p>
          <button type="button" class="primary" @click="${onAgain}">${t('Start a new session')}</button>
        </div>`
    case 'lost':
      // No icon: its file might have to be requested, and the server does not answer.
      return html`
        <div class="note lost">
          <span class="dot lost"></span>
          <p>${
            link.isBlocked
              ? t(
                  'The server responds, but WebSocket connections fail. A proxy in between must forward the “Upgrade” and “Connection” headers.'
                )
              : t(
                  'Connection lost. Reconnecting… The shell keeps running for two minutes, and its output will appear here.'
                )
          }</p>
        </div>`
  }
  return html`<div class="note connecting"><p class="muted">${t('Connecting…')}</p></div>`
}

/** Returns how a session ended, as a sentence. If the server ended it, its own words. */
function endWords(end: TerminalEnd): unknown {
  if (end.kind === 'closed') return twoLines(serverWords(end.message))
  if (end.signal !== null) return t('The shell was terminated by {signal}.', { signal: end.signal })
  if (end.exitCode === 0) return t('The shell has exited.')
  return t('The shell exited with code {code}.', { code: String(end.exitCode) })
}

/** Returns the page of a server without a terminal. */
export function noTerminal({ reason = '' }: TerminalAvailability): Template {
  return html`
    <div class="page-head"><h1>${t('Terminal')}</h1></div>
    <div class="card state">
      <h2>${t('No terminal on this server')}</h2>
      <p class="muted" translate="no">${twoLines(serverWords(reason))}</p>
    </div>`
}
