import { html } from '../dom/html.js'
import type { Template } from '../dom/html.js'
import { Page } from './page.js'
import { t } from '../words/t.js'

/** An address without a page, or a page that could not be fetched (property `isUnloadable`). */
export class LostPage extends Page {
  isUnloadable = false

  protected override connected(): void {
    const title = this.isUnloadable ? t('Not loaded') : t('Not found')
    this.entitle(title, [{ words: title }])
  }

  protected override view(): Template {
    if (this.isUnloadable) {
      return html`
        <div class="state">
          <h1>${t('This page could not be loaded')}</h1>
          <p class="muted">
            ${t('The server did not send it. It may be restarting, or it has been updated since you came.')}
          </p>
          <button type="button" class="primary" @click="${() => location.reload()}">${t('Load again')}</button>
        </div>`
    }
    return html`
      <div class="state">
        <h1>${t('There is nothing here')}</h1>
        <p class="muted">
          ${t('The address names no page of this panel. The thing it meant may have been deleted.')}
        </p>
        <a class="button" href=".">${t('To the overview')}</a>
      </div>`
  }
}
