import { said } from '../events.js'
import { html, icon, type Template } from '../../dom/html.js'
import { Refused } from '../../server/client.js'
import { t } from '../../words/t.js'

/** The parameters of `missing`. */
export interface Missing {
  /** The heading, for example "Project not found". */
  words: string
  /** The id in the address. */
  id: string
  /** The list of the existing records. */
  list: { address: string; words: string }
}

/** Reports whether the server answered 404: it does not know the id. */
export const isUnknown = (error: unknown): boolean => error instanceof Refused && error.status === 404

/** Returns a page for an id that does not exist, with links to the list and to the search. */
export function missing({ words, id, list }: Missing): Template {
  return html`
    <div class="state card">
      <h1>${words}</h1>
      <p class="muted anywhere">
        ${t('No record with this id:')} <code translate="no">${id}</code>
      </p>
      <p class="muted">${t('It may have been deleted, or the address is incomplete.')}</p>
      <div class="actions">
        <a class="button primary" href="${list.address}">${list.words}</a>
        ${searchButton()}
      </div>
    </div>`
}

/** A button that opens the search over everything. */
function searchButton(): Template {
  const search = (event: Event): void =>
    void (event.currentTarget as Element).dispatchEvent(said('overlay', { overlay: 'palette' }))
  return html`<button type="button" @click="${search}">${icon('search')}${t('Search')}</button>`
}

/** Returns the page of a project that does not exist. */
export function missingProject(id: string): Template {
  return missing({
    words: t('Project not found'),
    id,
    list: { address: 'projects', words: t('Go to projects') }
  })
}
