import { openTerminal, type TerminalLink } from '../../server/terminal.js'
import type { Client } from '../../server/client.js'
import type { KeptTerminal } from '../../state/kept-terminals.js'
import type { SvcTerminal } from './svc-terminal.js'

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

/** The dependencies of createTerminalSession. */
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
