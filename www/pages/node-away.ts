import { html, type Template } from '../dom/html.js'
import { t } from '../words/t.js'
import { Page } from './page.js'

/** The page in place of those of a node that is not connected, or does not exist. It is left when the node is back. */
export class NodeAwayPage extends Page {
  protected override connected(): void {
    this.entitle(t('Not connected'), [{ words: t('Not connected') }])
  }

  protected override view(): Template {
    const back = this.context.client.address(`nodes/${encodeURIComponent(this.place.params['node'] ?? '')}`)
    return html`
      <div class="card"><div class="state">
        <h1>${t('This node is not connected')}</h1>
        <p class="muted">${t('Its deployments, files, logs and terminal are on the node itself. They are shown as soon as it is connected again.')}</p>
        <p class="muted">${t('Check that “svc agent” runs there, and that the machine reaches this server.')}</p>
        <a class="button" href="${back}">${t('What this server knows about it')}</a>
      </div></div>`
  }
}
