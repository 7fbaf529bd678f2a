import type { TerminalAvailability } from '../../lib/model/terminal.js'
import { html } from '../dom/html.js'
import type { Template } from '../dom/html.js'
import type { TerminalEnd, TerminalState } from '../server/terminal.js'
import { t } from '../words/t.js'
import type { TerminalSession } from './terminal-session.js'
import { serverWords, twoLines } from '../words/errors.js'

/** A session's state as a word; none for one that is as it should be. */
export function stateWords(state: TerminalState): string {
  return { connecting: t('Connecting…'), open: '', lost: t('Connection lost'), ended: t('Ended') }[state]
}

/** What is to be said below a session's screen; null: nothing. */
export function noteOf({ link }: TerminalSession, onAgain: () => void): Template | null {
  switch (link?.state) {
    case 'open': return null
    case 'ended':
      return html`
        <div class="note ended">
          <p>${endWords(link.end as TerminalEnd)}</p>
          <button type="button" class="primary" @click="${onAgain}">${t('Start a new session')}</button>
        </div>`
    case 'lost':
      // No icon: its file may have to be asked for, and nobody answers.
      return html`
        <div class="note lost">
          <span class="dot lost"></span>
          <p>${link.isBlocked
            ? t('The server answers, but no WebSocket reaches it: a proxy in between has to pass on “Upgrade” and “Connection”.')
            : t('The connection is lost; trying again. The shell goes on for two minutes, and what it writes will be here.')}</p>
        </div>`
  }
  return html`<div class="note connecting"><p class="muted">${t('Connecting…')}</p></div>`
}

/** How a session ended, as a sentence; where the server ended it, in its words. */
function endWords(end: TerminalEnd): unknown {
  if (end.kind === 'closed') return twoLines(serverWords(end.message))
  if (end.signal !== null) return t('The shell was ended by {signal}.', { signal: end.signal })
  if (end.exitCode === 0) return t('The shell has ended.')
  return t('The shell has ended with exit code {code}.', { code: String(end.exitCode) })
}

/** The page of a server that has none. */
export function noTerminal({ reason = '' }: TerminalAvailability): Template {
  return html`
    <div class="page-head"><h1>${t('Terminal')}</h1></div>
    <div class="card state">
      <h2>${t('There is no terminal on this server')}</h2>
      <p class="muted" translate="no">${twoLines(serverWords(reason))}</p>
    </div>`
}
