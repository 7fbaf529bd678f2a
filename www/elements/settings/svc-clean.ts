import type { Client } from '../../server/client.js'
import { notice, said, css, SvcElement } from '../element.js'
import type { ShownProject as Project } from '../../../lib/model/project.js'
import type { CleanRequest, CleanResult } from '../../server/requests.js'
import { html, type Template } from '../../dom/html.js'
import { countWords, t } from '../../words/t.js'
import { errorLine, field, question, Submission, submitted } from '../base/form.js'
import { formatBytes } from '../../shared/api.js'

/** The preview of a clean-up. */
interface Trial {
  request: CleanRequest
  result: CleanResult
}

const shownGoing = 8
/** Cannot be the id of a project. */
const unrecordedScope = '+'

/**
 * Deletes what is no longer needed, after a preview. Properties: `client`, `projects`; `keep`, the proposed number of
 * archives. Events: `cleaned`, `notice`.
 */
export class SvcClean extends SvcElement {
  static override sheet = css`
    svc-clean {
      display: block;

      .clean { display: grid; grid-template-columns: 180px minmax(0, 1fr) auto; gap: 20px; align-items: end; }
      .clean .field { align-content: start; }
      .going { display: grid; gap: 12px; }
      .going li { display: flex; justify-content: space-between; gap: 16px; padding: 4px 0; }
      .going li > :first-child { min-width: 0; }
      @media (max-width: 719px) { .clean { grid-template-columns: minmax(0, 1fr); } }
    }
  `

  client!: Client
  keep = 10
  projects: readonly Project[] = []
  #trial: Trial | null = null
  readonly #submission = new Submission(this)

  protected override view(): Template {
    return html`
      ${this.#form()}
      <svc-dialog heading="${t('Clean up?')}" .content="${this.#trial === null ? null : this.#dialog(this.#trial)}"
        @dialogclose="${() => this.#close()}"></svc-dialog>`
  }

  #form(): Template {
    // An error of the dialog is shown in the dialog.
    const hasDialog = this.#trial !== null
    const { isBusy } = this.#submission
    return html`
      <form class="form" @submit="${(event: Event) => void this.#try(event)}">
        <p class="muted">
          ${t('Deletes older archives of successful deployments and unused temporary files. You can no longer roll back to those deployments. Targets, records and outputs stay. A preview is shown first.')}
        </p>
        <div class="clean">
          ${field({
            form: 'clean',
            name: 'keep',
            label: t('Archives to keep per project'),
            value: String(this.keep),
            isRequired: true,
            error: hasDialog ? undefined : this.#submission.problemOf('keep')
          })}
          <div class="field">
            <label for="clean-projectId">${t('Scope')}</label>
            <select id="clean-projectId" name="projectId">
              <option value="">${t('All projects and temporary files')}</option>
              <option value="${unrecordedScope}">${t('All projects, temporary files and files without a record')}</option>
              ${this.projects.map(({ id, name }) => html`<option value="${id}">${name}</option>`)}
            </select>
          </div>
          <button disabled="${isBusy}">${isBusy ? t('Searching…') : t('Preview…')}</button>
        </div>
        ${errorLine(hasDialog ? null : this.#submission.problemBeside(['keep']))}
      </form>`
  }

  #dialog({ result }: Trial): Template {
    const { removed, freedBytes } = result
    const count = removed.archives.length + removed.temporaryFiles.length + removed.unrecordedFiles.length
    const left = leftWords(result)
    if (count === 0) {
      return html`
        <div class="form">
          <p>${t('Nothing to delete: no project keeps more archives than that.')}</p>
          ${left}
          <div class="actions end">
            <button type="button" autofocus="" @click="${() => this.#close()}">${t('Close')}</button>
          </div>
        </div>`
    }
    return question({
      asked: html`
        <div class="going">
          <p>${t('This frees {size}. You can no longer roll back to these deployments:', { size: formatBytes(freedBytes) })}</p>
          <ul class="number">${goingRows(removed, this.projects)}</ul>
          ${left}
        </div>`,
      submission: this.#submission,
      answer: this.#submission.isBusy ? t('Deleting…') : t('Delete {count}', { count: countWords(count, 'file') }),
      onAnswer: event => void this.#clean(event),
      onRefusal: () => this.#close()
    })
  }

  async #try(event: Event): Promise<void> {
    const { keep = '', projectId = '' } = submitted(event)
    const request: CleanRequest = {
      dryRun: true,
      keep: Number(keep),
      ...(projectId === unrecordedScope ? { unrecorded: true } : projectId === '' ? {} : { projectId })
    }
    await this.#submission.run(async () => {
      this.#trial = { request, result: await this.client.call('POST /api/storage/clean', { body: request }) }
    })
  }

  async #clean(event: Event): Promise<void> {
    event.preventDefault()
    const request = this.#trial?.request
    if (request === undefined) return
    await this.#submission.run(async () => {
      const { freedBytes } = await this.client.call('POST /api/storage/clean', { body: { ...request, dryRun: false } })
      this.#trial = null
      this.dispatchEvent(notice(t('{size} freed', { size: formatBytes(freedBytes) })))
      this.dispatchEvent(said('cleaned'))
    })
  }

  #close(): void {
    this.#trial = null
    this.#submission.refuse(null)
  }
}

/** Returns the files without a record. After a loss of the database, they can be all that remains of it. */
function leftWords({ unrecordedLeft }: CleanResult): Template | null {
  if (unrecordedLeft.length === 0) return null
  const [count, size] = [countWords(unrecordedLeft.length, 'file'), formatBytes(bytesOf(unrecordedLeft))]
  return html`<p class="muted">${t('{count} without a record are kept ({size}): they may be all that remains of a lost database. Change the scope to delete them.', { count, size })}</p>`
}

function bytesOf(files: ReadonlyArray<{ bytes: number }>): number {
  return files.reduce((sum, each) => sum + each.bytes, 0)
}

/** Returns what will be deleted, project by project, the largest part first. */
function goingRows(
  { archives, temporaryFiles, unrecordedFiles }: CleanResult['removed'],
  projects: readonly Project[]
): Template[] {
  const names = new Map(projects.map(({ id, name }) => [id, name]))
  const groups = new Map<string, { count: number; bytes: number }>()
  for (const { projectId, bytes } of archives) {
    const group = groups.get(projectId) ?? { count: 0, bytes: 0 }
    groups.set(projectId, { count: group.count + 1, bytes: group.bytes + bytes })
  }
  const rows = [...groups]
    .sort(([, a], [, b]) => b.bytes - a.bytes)
    .map(([id, { count, bytes }]) => ({
      what: names.get(id) ?? id,
      count: countWords(count, 'archive'),
      bytes
    }))
  const others = rows.splice(shownGoing)
  if (others.length > 0) {
    rows.push({ what: t('Other projects'), count: countWords(others.length, 'project'), bytes: bytesOf(others) })
  }
  for (const [what, files] of [
    [t('Temporary files'), temporaryFiles],
    [t('Files without a record'), unrecordedFiles]
  ] as const) {
    if (files.length > 0) rows.push({ what, count: countWords(files.length, 'file'), bytes: bytesOf(files) })
  }
  return rows.map(
    ({ what, count, bytes }) => html`
    <li><span class="cut" title="${what}">${what}</span><span class="muted">${count}, ${formatBytes(bytes)}</span></li>`
  )
}
