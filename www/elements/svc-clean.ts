import type { Project } from '../../lib/model/project.js'
import type { AdminCalls, CleanRequest, CleanResult } from '../server/admin-calls.js'
import { Refused } from '../server/client.js'
import { css, SvcElement } from '../dom/element.js'
import { html } from '../dom/html.js'
import type { Template } from '../dom/html.js'
import { countWords, t } from '../words/t.js'
import { errorLine, field, submitted } from './field.js'
import { question } from './question.js'
import { NoticeEvent } from './svc-notices.js'
import { sizeWords } from './words.js'
import { errorWords } from '../words/errors.js'

/** Something was deleted. */
export class CleanedEvent extends Event {
  constructor() {
    super('cleaned', { bubbles: true })
  }
}

declare global {
  interface HTMLElementEventMap {
    cleaned: CleanedEvent
  }
}

/** A clean-up that was tried, and what it would take. */
interface Trial {
  request: CleanRequest
  result: CleanResult
}

const shownGoing = 8
/** No id of a project. */
const unrecordedScope = '+'

/**
 * Deletes what is no longer needed, and says first what that is. Properties `calls`, `projects`; `keep`: the number that
 * is proposed. Events `cleaned`, `notice`.
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

  calls!: Pick<AdminCalls, 'clean'>
  keep = 10
  #projects: readonly Project[] = []
  #trial: Trial | null = null
  #problem: unknown = null
  #isBusy = false

  set projects(projects: readonly Project[]) {
    this.#projects = projects
    this.update()
  }

  get projects(): readonly Project[] {
    return this.#projects
  }

  protected override view(): Template {
    return html`
      ${this.#form()}
      <svc-dialog heading="${t('Clean up?')}" .content="${this.#trial === null ? null : this.#dialog(this.#trial)}"
        @dialogclose="${() => this.#close()}"></svc-dialog>`
  }

  #form(): Template {
    const refusal = this.#trial === null ? this.#problem : null
    const isOfKeep = refusal instanceof Refused && refusal.field === 'keep'
    return html`
      <form class="form" @submit="${(event: Event) => void this.#try(event)}">
        <p class="muted">
          ${t('Older archives of successful deployments go, and with them the way back to those deployments; so do temporary files that nothing uses. Targets, records and outputs stay. What would go is shown first.')}
        </p>
        <div class="clean">
          ${field({
            form: 'clean', name: 'keep', label: t('Archives kept per project'), value: String(this.keep), isRequired: true,
            error: isOfKeep ? errorWords(refusal) : undefined
          })}
          <div class="field">
            <label for="clean-projectId">${t('Scope')}</label>
            <select id="clean-projectId" name="projectId">
              <option value="">${t('Every project, and temporary files')}</option>
              <option value="${unrecordedScope}">${t('These, and files without a record')}</option>
              ${this.#projects.map(({ id, name }) => html`<option value="${id}">${name}</option>`)}
            </select>
          </div>
          <button disabled="${this.#isBusy}">${this.#isBusy ? t('Looking…') : t('Show what would go…')}</button>
        </div>
        ${errorLine(refusal === null || isOfKeep ? null : errorWords(refusal))}
      </form>`
  }

  #dialog({ result }: Trial): Template {
    const { removed, freedBytes } = result
    const count = removed.archives.length + removed.temporaryFiles.length + removed.unrecordedFiles.length
    const left = leftWords(result)
    if (count === 0) {
      return html`
        <div class="form">
          <p>${t('Nothing would go: no more is kept than that.')}</p>
          ${left}
          <div class="actions end">
            <button type="button" autofocus="" @click="${() => this.#close()}">${t('Close')}</button>
          </div>
        </div>`
    }
    return question({
      asked: html`
        <div class="going">
          <p>${t('{size} would come free. The way back to these deployments is lost for good:', { size: sizeWords(freedBytes) })}</p>
          <ul class="number">${goingRows(removed, this.#projects)}</ul>
          ${left}
        </div>`,
      problem: this.#problem === null ? null : errorWords(this.#problem),
      isBusy: this.#isBusy,
      answer: this.#isBusy ? t('Deleting…') : t('Delete {count}', { count: countWords(count, 'file') }),
      onAnswer: event => void this.#clean(event),
      onRefusal: () => this.#close()
    })
  }

  async #try(event: Event): Promise<void> {
    const { keep = '', projectId = '' } = submitted(event)
    const request: CleanRequest = {
      dryRun: true, keep: Number(keep),
      ...(projectId === unrecordedScope ? { unrecorded: true } : projectId === '' ? {} : { projectId })
    }
    await this.#busy(async () => {
      this.#trial = { request, result: await this.calls.clean(request) }
    })
  }

  async #clean(event: Event): Promise<void> {
    event.preventDefault()
    const request = this.#trial?.request
    if (request === undefined) return
    await this.#busy(async () => {
      const { freedBytes } = await this.calls.clean({ ...request, dryRun: false })
      this.#trial = null
      this.dispatchEvent(new NoticeEvent(t('{size} came free', { size: sizeWords(freedBytes) })))
      this.dispatchEvent(new CleanedEvent())
    })
  }

  async #busy(work: () => Promise<void>): Promise<void> {
    this.#isBusy = true
    this.#problem = null
    this.update()
    try {
      await work()
    } catch (error) {
      this.#problem = error
    }
    this.#isBusy = false
    this.update()
  }

  #close(): void {
    this.#trial = null
    this.#problem = null
    this.update()
  }
}

/** Files that no record names: after a loss of the database they may be all that is left of it. */
function leftWords({ unrecordedLeft }: CleanResult): Template | null {
  if (unrecordedLeft.length === 0) return null
  const [count, size] = [countWords(unrecordedLeft.length, 'file'), sizeWords(bytesOf(unrecordedLeft))]
  return html`<p class="muted">${t('{count} without a record stay ({size}): they may be all that is left of a lost database. The scope says whether they go.', { count, size })}</p>`
}

function bytesOf(files: ReadonlyArray<{ bytes: number }>): number {
  return files.reduce((sum, each) => sum + each.bytes, 0)
}

/** What goes, project by project, the largest part first. */
function goingRows({ archives, temporaryFiles, unrecordedFiles }: CleanResult['removed'], projects: readonly Project[]): Template[] {
  const names = new Map(projects.map(({ id, name }) => [id, name]))
  const groups = new Map<string, { count: number; bytes: number }>()
  for (const { projectId, bytes } of archives) {
    const group = groups.get(projectId) ?? { count: 0, bytes: 0 }
    groups.set(projectId, { count: group.count + 1, bytes: group.bytes + bytes })
  }
  const rows = [...groups].sort(([, a], [, b]) => b.bytes - a.bytes).map(([id, { count, bytes }]) => ({
    what: names.get(id) ?? id, count: countWords(count, 'archive'), bytes
  }))
  const others = rows.splice(shownGoing)
  if (others.length > 0) {
    rows.push({ what: t('and of others'), count: countWords(others.length, 'project'), bytes: bytesOf(others) })
  }
  for (const [what, files] of [[t('Temporary files'), temporaryFiles], [t('Files without a record'), unrecordedFiles]] as const) {
    if (files.length > 0) rows.push({ what, count: countWords(files.length, 'file'), bytes: bytesOf(files) })
  }
  return rows.map(({ what, count, bytes }) => html`
    <li><span class="cut" title="${what}">${what}</span><span class="muted">${count}, ${sizeWords(bytes)}</span></li>`)
}
