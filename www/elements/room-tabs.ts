import { html } from '../dom/html.js'
import type { Template } from '../dom/html.js'
import { tabs } from '../router.js'
import { t } from '../words/t.js'

/** A row of links of which one is where the reader is; its look is in panel.css. */
export function tabLinks(label: string, links: ReadonlyArray<{ address: string; words: string }>, here: string): Template {
  return html`
    <nav class="tabs" aria-label="${label}">
      ${links.map(({ address, words }) => html`
        <a href="${address}" aria-current="${address === here ? 'page' : null}">${t(words)}</a>`)}
    </nav>`
}

/** The screens of a room. */
export function roomTabs(room: string, here: string): Template {
  return tabLinks(t('Screens of this room'), tabs[room] ?? [], here)
}
