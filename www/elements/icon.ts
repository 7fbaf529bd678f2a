import { html } from '../dom/html.js'
import type { Template } from '../dom/html.js'

export type IconName =
  | 'overview' | 'projects' | 'deployments' | 'sign-out' | 'success' | 'failed' | 'running' | 'queued' | 'idle'
  | 'skipped' | 'warning' | 'copy' | 'check' | 'search' | 'plus' | 'roll-back' | 'close' | 'download' | 'down' | 'next'
  | 'logs' | 'terminal' | 'system' | 'settings' | 'more' | 'pin' | 'edit' | 'delete' | 'folder' | 'file' | 'link'
  | 'up' | 'filter' | 'tag' | 'external' | 'pause' | 'play' | 'wrap' | 'theme' | 'open'

/** A picture from the sprite; a word always stands beside it, so it is hidden from screen readers. */
export function icon(name: IconName): Template {
  return html`<svg class="icon" aria-hidden="true"><use href="icons/sprite.svg#${name}"/></svg>`
}
