import { html, type Template } from '../dom/html.js'
import { roleWords } from '../elements/base/words.js'
import { holderNow, lackOf, pageRights, rightNeeds } from '../state/session.js'
import { countWords, t } from '../words/t.js'
import { Page } from './page.js'

/** The page for an address that the signed-in token may not open. It says why. */
export class DeniedPage extends Page {
  protected override connected(): void {
    this.entitle(t('No access'), [{ words: t('No access') }])
  }

  protected override view(): Template {
    return html`
      <div class="state">
        <h1>${t('Your token may not open this page')}</h1>
        <p class="muted anywhere">${this.#reason()}</p>
        <div class="actions"><a class="button primary" href=".">${t('Go to overview')}</a></div>
      </div>`
  }

  #reason(): string {
    const right = pageRights[this.place.row.path]
    const holder = holderNow()
    if (right === undefined || holder === null) return ''
    const name = holder.token?.name ?? t('Admin token')
    if (lackOf(right) === 'scope') {
      const count = countWords(holder.projects?.length ?? 0, 'project')
      return t('This page concerns the whole server, and the token “{name}” is limited to {count}.', { name, count })
    }
    const { role: needed } = rightNeeds[right]
    const values = { name, role: t(roleWords[holder.role]), needed: t(roleWords[needed]) }
    return needed === 'admin'
      ? t('This page requires the role {needed}. The token “{name}” has the role {role}.', values)
      : t('This page requires the role {needed} or a higher one. The token “{name}” has the role {role}.', values)
  }
}

export const elements = { 'svc-page-denied': DeniedPage }
