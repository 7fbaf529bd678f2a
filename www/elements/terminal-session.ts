import { openTerminal } from '../server/terminal.js'
import type { TerminalLink } from '../server/terminal.js'
import type { Client } from '../server/client.js'
import { SvcTerminal } from './svc-terminal.js'

/** A screen and the shell behind it. It lives on while other pages are shown. */
export interface TerminalSession {
  readonly key: string
  readonly element: SvcTerminal
  readonly projectId: string | null
  /** Null before the screen has a size, that is before it was first shown. */
  readonly link: TerminalLink | null
  /** As the program calls its window; empty: it does not. */
  readonly title: string
  /** The bell rang since the session was last seen. */
  hasRung: boolean
  /** Another shell on the same screen, after the first has ended. */
  restart(): void
  close(): void
}

export interface TerminalSessionNeeds {
  key: string
  client: Client
  projectId: string | null
  onChange: () => void
}

/** A session that begins once its element is on the page. */
export function createTerminalSession({ key, client, projectId, onChange }: TerminalSessionNeeds): TerminalSession {
  const element = document.createElement('svc-terminal') as SvcTerminal
  let link: TerminalLink | null = null
  let title = ''
  let size: { columns: number; rows: number } | null = null

  const begin = (): void => {
    if (size === null) return
    link = openTerminal({
      client,
      projectId,
      size,
      onData: (text, drawn) => element.write(text, drawn),
      onGap: () => element.reset(),
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
    restart() {
      link?.close()
      element.reset()
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
  return session
}
