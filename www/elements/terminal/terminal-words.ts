import type { TerminalAvailability } from '../../../lib/model/terminal.js'
import { html, type Template } from '../../dom/html.js'
import type { TerminalEnd, TerminalState } from '../../server/terminal.js'
import { t } from '../../words/t.js'
import type { TerminalSession } from './terminal-session.js'
import { serverWords, twoLines } from '../../words/errors.js'

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
