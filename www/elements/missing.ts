import { html, icon } from '../dom/html.js'
import type { Template } from '../dom/html.js'
import { Refused } from '../server/client.js'
import { t } from '../words/t.js'
import { OverlayEvent } from './svc-app.js'

export interface Missing {
  /** What there is not, as a heading. */
  words: string
  /** The id that the address names. */
  id: string
  /** Where those that exist are listed. */
  list: { address: string; words: string }
}

/** Whether the server knows nothing by this id. */
export const isUnknown = (error: unknown): boolean => error instanceof Refused && error.status === 404

/** A page for an id that nothing has: says so, and leads to the list and to the search. */
export function missing({ words, id, list }: Missing): Template {
  return html`
    <div class="state card">
      <h1>${words}</h1>
      <p class="muted anywhere">
        ${t('Nothing has this id:')} <code translate="no">${id}</code>
      </p>
      <p class="muted">${t('It may have been deleted, or the address is not complete.')}</p>
      <div class="actions">
        <a class="button primary" href="${list.address}">${list.words}</a>
        ${searchButton()}
      </div>
    </div>`
}

/** Opens the search over everything. */
export function searchButton(): Template {
  const search = (event: Event): void => void (event.currentTarget as Element).dispatchEvent(new OverlayEvent('palette'))
  return html`<button type="button" @click="${search}">${icon('search')}${t('Search')}</button>`
}

/** The page of a project that does not exist. */
export function missingProject(id: string): Template {
  return missing({ words: t('This project does not exist'), id, list: { address: 'projects', words: t('To the projects') } })
}
