import type { ShownProject as Project } from '../../lib/model/project.js'
import type { Finding } from '../../lib/model/transfer.js'
import { css } from '../elements/element.js'
import { html, icon, type Template } from '../dom/html.js'
import { Page, roomTabs } from './page.js'
import { loaded, type Resource, staleLine } from '../state/resource.js'
import { SvcDialog } from '../elements/base/form.js'
import { SvcExport } from '../elements/settings/svc-export.js'
import { SvcImport } from '../elements/settings/svc-import.js'
import { numberWords, t, serverWords, twoLines } from '../words/t.js'

/** Export and import of packages, and the check of the stored data. */
export class MigrationPage extends Page {
  static override sheet = css`
    svc-page-migration {
      .both { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); gap: 32px 20px; align-items: start; }
      .findings li { display: grid; grid-template-columns: 16px minmax(0, 1fr); gap: 2px 12px; padding: 10px 20px; }
      .findings li + li { border-top: 1px solid var(--line); }
      .further { border-top: 1px solid var(--line); }
      .further summary { padding: 10px 20px; cursor: pointer; }
      .further .findings { border-top: 1px solid var(--line); }
      .findings .icon { margin-top: 3px; color: var(--success); }
      .findings .warning .icon { color: var(--warning); }
      .findings .error .icon { color: var(--failure); }
      .findings p { grid-column: 2; overflow-wrap: anywhere; }

      @media (max-width: 979px) { .both { grid-template-columns: minmax(0, 1fr); } }
      @media (max-width: 719px) { .findings li { padding: 10px 16px; } }
    }
  `

  #projects!: Resource<Project[]>
  #findings!: Resource<Finding[]>

  protected override connected(): void {
    this.entitle(t('Export and import'), [
      { words: t('Settings'), address: 'settings' },
      { words: t('Export and import') }
    ])
    this.#projects = this.resource(signal => this.context.client.call('GET /api/projects', { signal }))
    this.#findings = this.resource(
      async signal => (await this.context.client.call('GET /api/migration/verify', { signal })).findings
    )
  }

  protected override view(): Template {
    return html`
      <div class="page-head">
        <div>
          <h1>${t('Export and import')}</h1>
          <p class="muted">${t('Projects with their settings, records and archives in one file, to move them to another server. For a copy of the whole data directory, run:')} <code translate="no">svc backup</code></p>
        </div>
      </div>
      ${roomTabs('settings', 'migration')}
      <div class="both">
        <section class="section">
          <h2>${t('Export')}</h2>
          <div class="card padded">
            <svc-export .client="${this.context.client}" .projects="${this.#projects.value ?? []}"></svc-export>
          </div>
        </section>
        <section class="section">
          <h2>${t('Import')}</h2>
          <div class="card padded" @imported="${() => this.#imported()}">
            <svc-import .client="${this.context.client}"></svc-import>
          </div>
        </section>
      </div>
      <section class="section">
        <div class="section-head">
          <h2>${t('Data check')}</h2>
          <button type="button" @click="${() => void this.#findings.load()}">${t('Check again')}</button>
        </div>
        ${staleLine(this.#findings)}
        <div class="card">${loaded(this.#findings, 'the findings', findings)}</div>
      </section>`
  }

  #imported(): void {
    this.notify(t('Imported'))
    void this.#projects.load()
    void this.#findings.load()
  }
}

const ranks: Record<Finding['level'], number> = { error: 0, warning: 1, ok: 2 }

/** Findings that are shown at once, unless more are errors. */
const shownFindings = 10

/** Shows the findings of the check, errors first, in the words of the server. */
function findings(list: Finding[]): Template {
  const sorted = [...list].sort((a, b) => ranks[a.level] - ranks[b.level])
  const most = Math.max(shownFindings, list.filter(({ level }) => level === 'error').length)
  const more = sorted.slice(most)
  return html`
    ${findingRows(sorted.slice(0, most))}
    ${
      more.length === 0
        ? null
        : html`<details class="further"><summary>${t('Show {count} more', { count: numberWords(more.length) })}</summary>${findingRows(more)}</details>`
    }`
}

function findingRows(list: Finding[]): Template {
  const said = { ok: t('OK'), warning: t('Warning'), error: t('Broken') }
  return html`
    <ul class="findings">
      ${list.map(
        ({ level, message, next }) => html`
        <li class="${level}">
          ${icon(level === 'ok' ? 'success' : level === 'error' ? 'failed' : 'warning')}
          <p><span class="unseen">${said[level]}: </span><span translate="no">${twoLines(serverWords(message))}</span></p>
          ${next === null ? null : html`<p class="muted small" translate="no">${twoLines(serverWords(next))}</p>`}
        </li>`
      )}
    </ul>`
}

export const elements = {
  'svc-page-migration': MigrationPage,
  'svc-export': SvcExport,
  'svc-import': SvcImport,
  'svc-dialog': SvcDialog
}
