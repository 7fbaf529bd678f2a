import { css } from '../elements/element.js'
import { html, type Template } from '../dom/html.js'
import { Page, roomTabs } from './page.js'
import { SvcDialog } from '../elements/base/form.js'
import { SvcConflict } from '../elements/base/saving.js'
import { SvcLabel } from '../elements/base/facts.js'
import { SvcLabels } from '../elements/projects/svc-labels.js'
import { t } from '../words/t.js'

/** Categories and tags, side by side. */
export class LabelsPage extends Page {
  static override sheet = css`
    svc-page-labels {
      .both { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); gap: 32px 20px; }
      @media (max-width: 979px) { .both { grid-template-columns: minmax(0, 1fr); } }
    }
  `

  protected override connected(): void {
    this.entitle(t('Categories and tags'), [
      { words: t('Settings'), address: 'settings' },
      { words: t('Categories and tags') }
    ])
  }

  protected override view(): Template {
    return html`
      <div class="page-head">
        <div>
          <h1>${t('Categories and tags')}</h1>
          <p class="muted">${t('Use them to group projects and to filter the project list.')}</p>
        </div>
      </div>
      ${roomTabs('settings', 'labels')}
      <div class="both">
        <svc-labels kind="category" .client="${this.context.client}"></svc-labels>
        <svc-labels kind="tag" .client="${this.context.client}"></svc-labels>
      </div>`
  }
}

export const elements = {
  'svc-page-labels': LabelsPage,
  'svc-labels': SvcLabels,
  'svc-label': SvcLabel,
  'svc-dialog': SvcDialog,
  'svc-conflict': SvcConflict
}
