import { html } from '../dom/html.js'
import type { Template } from '../dom/html.js'

export type IconName =
  | 'overview' | 'projects' | 'deployments' | 'sign-out' | 'success' | 'failed' | 'running' | 'queued' | 'idle'
  | 'skipped' | 'warning' | 'copy' | 'check' | 'search' | 'plus' | 'roll-back' | 'close' | 'download' | 'down' | 'next'
  | 'logs' | 'terminal' | 'system' | 'settings' | 'more' | 'pin' | 'edit' | 'delete' | 'folder' | 'file' | 'link'
  | 'filter' | 'tag' | 'external' | 'pause' | 'play' | 'wrap' | 'theme'

/** A picture from the sprite; a word always stands beside it, so it is hidden from screen readers. */
export function icon(name: IconName): Template {
  return html`<svg class="icon" aria-hidden="true"><use href="icons/sprite.svg#${name}"/></svg>`
}

/** The mark of svc, drawn here so that it costs no request; `icons/svc.svg` is the same for the browser's tab. */
export function logo(): Template {
  return html`
    <svg viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="8" fill="#2b59d9"/>
      <path d="M16 23V10M10.5 15 16 9.5l5.5 5.5" fill="none" stroke="#fff" stroke-width="3" stroke-linecap="round"
        stroke-linejoin="round"/>
    </svg>`
}
