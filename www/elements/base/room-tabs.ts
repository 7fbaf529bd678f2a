import { html, type Template } from '../../dom/html.js'
import { shownTabs } from '../../router.js'
import { isLookingAtNode } from '../../state/rights.js'
import { t } from '../../words/t.js'

/** Returns a row of links of which one is the current page. Its styles are in panel.css. */
export function tabLinks(
  label: string,
  links: ReadonlyArray<{ address: string; words: string }>,
  here: string
): Template {
  return html`
    <nav class="tabs" aria-label="${label}">
      ${links.map(
        ({ address, words }) => html`
        <a href="${address}" aria-current="${address === here ? 'page' : null}">${t(words)}</a>`
      )}
    </nav>`
}

/** Returns the links to the pages of a room. A node has other rooms, with links above its pages. */
export function roomTabs(room: string, here: string): Template | null {
  return isLookingAtNode() ? null : tabLinks(t('Pages'), shownTabs(room), here)
}
