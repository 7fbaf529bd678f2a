import type { Deployment, DeploymentRow, FinalStatus } from '../../lib/model/deployment.js'
import type { Changes } from '../../lib/model/manifest.js'
import type { Project } from '../../lib/model/project.js'
import type { Calls } from '../server/calls.js'
import { css, SvcElement } from '../dom/element.js'
import { html, icon } from '../dom/html.js'
import type { Template } from '../dom/html.js'
import { originOf } from './facts.js'
import { field, submitted } from './field.js'
import { liveAmong } from './live.js'
import { question } from './question.js'
import { NoticeEvent } from './svc-notices.js'
import { deploymentWords, sizeWords } from './words.js'
import { errorWords } from '../words/errors.js'
import { countWords, numberWords, t } from '../words/t.js'

/** A roll-back, or the same archive once more, has begun as a deployment of its own. */
export class RolledBackEvent extends Event {
  readonly deployId: string

  constructor(deployId: string) {
    super('rolledback', { bubbles: true })
    this.deployId = deployId
  }
}

/** The deployment was cancelled. */
export class DeploymentCancelEvent extends Event {
  constructor() {
    super('deploymentcancel', { bubbles: true })
  }
}

/** The deployment's status was corrected; the record as it is now. */
export class DeploymentMarkEvent extends Event {
  readonly deployment: Deployment

  constructor(deployment: Deployment) {
    super('deploymentmark', { bubbles: true })
    this.deployment = deployment
  }
}

declare global {
  interface HTMLElementEventMap {
    rolledback: RolledBackEvent
    deploymentcancel: DeploymentCancelEvent
    deploymentmark: DeploymentMarkEvent
  }
}

/** Of a project's deployments the newest: enough to find what is in place. */
const neighbours = 20
/** As the server takes it. */
const maxReason = 500

type Dialog = 'none' | 'roll_back' | 'cancel' | 'mark'

/** What is about to be deployed again, and what that does to what is in place. */
interface Rollback {
  source: DeploymentRow
  /** null: not known (yet). */
  project: Project | null
  /** null: not known (yet). */
  inPlace: DeploymentRow | null
  changes: Changes | null
}

/**
 * What can be done to a deployment, each with its question first: roll back to it, deploy it again, cancel it, correct
 * its status. Properties `deployment`, `calls`. Events `rolledback`, `deploymentcancel`, `deploymentmark`, `notice`.
 */
export class SvcDeploymentActions extends SvcElement {
  static override sheet = css`
    svc-deployment-actions {
      .version { display: grid; grid-template-columns: auto minmax(0, 1fr); gap: 4px 16px; }
      .version dt { color: var(--muted); }
      .version dd { margin: 0; min-width: 0; overflow-wrap: anywhere; }
      .changes { display: grid; gap: 4px; }
      .changes ul {
        max-height: 180px;
        overflow: auto;
        font: var(--size-12) / 1.6 var(--mono);
        overflow-wrap: anywhere;
      }
      @media (max-width: 719px) {
        width: 100%;
        > .actions > button { flex: 1; }
      }
    }
  `

  calls!: Calls
  #deployment!: DeploymentRow
  /** Where a failed one can go back to. */
  #lastGood: DeploymentRow | null = null
  #rollback: Rollback | null = null
  #dialog: Dialog = 'none'
  #problem: string | null = null
  #isBusy = false

  get deployment(): DeploymentRow {
    return this.#deployment
  }

  set deployment(deployment: DeploymentRow) {
    const before = this.#deployment as DeploymentRow | undefined
    this.#deployment = deployment
    const hasFailed = deployment.status === 'failed' && before?.status !== 'failed'
    if (hasFailed && this.isConnected) void this.#findLastGood(deployment)
    this.update()
  }

  protected override connected(): void {
    if (this.#deployment.status === 'failed') void this.#findLastGood(this.#deployment)
  }

  protected override view(): Template {
    const deployment = this.#deployment
    return html`<div class="actions">${this.#actions(deployment)}</div>${this.#dialogs(deployment)}`
  }

  #actions(deployment: DeploymentRow): unknown {
    if (isGoing(deployment)) {
      return html`<button type="button" class="danger" @click="${() => this.#open('cancel')}">${t('Cancel…')}</button>`
    }
    const { status, hasArtifact } = deployment
    const again = (source: DeploymentRow, words: string, kind: string | null): Template => html`
      <button type="button" class="${kind}" @click="${() => void this.#openRollback(source)}">
        ${icon('roll-back')}${words}
      </button>`
    return html`
      <button type="button" @click="${() => this.#open('mark')}">${markWords(deployment, t('Mark as success…'), t('Mark as failed…'))}</button>
      ${status === 'failed' && hasArtifact ? again(deployment, t('Deploy again…'), null) : null}
      ${status === 'success' && hasArtifact ? again(deployment, t('Roll back to this…'), 'primary') : null}
      ${status === 'failed' && this.#lastGood !== null
        ? again(this.#lastGood, t('Roll back to the last good one…'), 'primary')
        : null}`
  }

  #dialogs(deployment: DeploymentRow): Template {
    const isAgain = this.#rollback?.source.status === 'failed'
    const headings: Record<Dialog, string> = {
      none: '',
      roll_back: isAgain ? t('Deploy this archive again?') : t('Roll {project} back?', { project: deployment.projectName }),
      cancel: t('Cancel this deployment?'),
      mark: markWords(deployment, t('Mark this deployment as success?'), t('Mark this deployment as failed?'))
    }
    return html`
      <svc-dialog heading="${headings[this.#dialog]}" .content="${this.#dialogContent(deployment)}"
        @dialogclose="${() => this.#open('none')}"></svc-dialog>`
  }

  #dialogContent(deployment: DeploymentRow): Template | null {
    if (this.#dialog === 'none') return null
    const form = (asked: unknown, answer: string, kind: string, work: (reason: string) => Promise<void>): Template => question({
      asked,
      answer,
      kind,
      problem: this.#problem,
      isBusy: this.#isBusy,
      refusal: t('Not now'),
      onAnswer: event => void this.#do(event, work),
      onRefusal: () => this.#open('none')
    })
    if (this.#dialog === 'roll_back' && this.#rollback !== null) {
      const { source } = this.#rollback
      const button = source.status === 'failed' ? t('Deploy again') : t('Roll back')
      return form(rollbackWords(this.#rollback), button, 'primary', reason => this.#rollBack(source, reason))
    }
    if (this.#dialog === 'cancel') {
      const words = deployment.status === 'queued'
        ? html`
          <p>
            ${t('It waits for another one of {project}. It will be recorded as failed, and nothing is changed.', { project: deployment.projectName })}
          </p>`
        : html`
          <p>
            ${t('Its script is stopped with everything it started, and it is recorded as failed. Files that are already in place stay.')}
          </p>`
      return form(words, t('Cancel deployment'), 'danger primary', () => this.#cancel())
    }
    const status = opposite(deployment)
    const words = html`
      <p>
        ${status === 'failed' ? t('The record says success and will say failed.') : t('The record says failed and will say success.')} ${t('Nothing on the server is run or changed; the correction is kept in the output and the audit, and a notification is sent.')}
      </p>`
    return form(words, status === 'failed' ? t('Mark as failed') : t('Mark as success'), 'primary', () => this.#mark(status))
  }

  #open(dialog: Dialog): void {
    this.#dialog = dialog
    this.#problem = null
    this.update()
  }

  async #findLastGood({ projectId }: DeploymentRow): Promise<void> {
    try {
      const { items } = await this.calls.deployments({ projectId, status: 'success', limit: neighbours }, this.signal)
      this.#lastGood = items.find(item => item.hasArtifact) ?? null
      this.update()
    } catch {
      // The way back is an offer; without it the page still tells what failed.
    }
  }

  async #openRollback(source: DeploymentRow): Promise<void> {
    const { calls } = this
    this.#rollback = { source, project: null, inPlace: null, changes: null }
    this.#open('roll_back')
    const tell = (known: Partial<Rollback>): void => {
      if (this.#rollback?.source !== source) return
      this.#rollback = { ...this.#rollback, ...known }
      this.update()
    }
    // What it would change is a help, not a condition; the roll-back itself says what stands in its way.
    await Promise.allSettled([
      calls.project(source.projectId, this.signal).then(project => tell({ project })),
      this.#findChanges(source, tell)
    ])
  }

  async #findChanges(source: DeploymentRow, tell: (known: Partial<Rollback>) => void): Promise<void> {
    const { items } = await this.calls.deployments({ projectId: source.projectId, limit: neighbours }, this.signal)
    const inPlace = liveAmong(items)
    tell({ inPlace })
    if (inPlace === null || inPlace.id === source.id) return
    tell({ changes: await this.calls.changes(source.id, inPlace.id, this.signal) })
  }

  async #do(event: Event, work: (reason: string) => Promise<void>): Promise<void> {
    const { reason = '' } = submitted(event)
    this.#isBusy = true
    this.#problem = null
    this.update()
    try {
      await work(reason.trim())
      this.#dialog = 'none'
    } catch (error) {
      this.#problem = errorWords(error)
    }
    this.#isBusy = false
    this.update()
  }

  async #rollBack({ id }: DeploymentRow, reason: string): Promise<void> {
    this.dispatchEvent(new RolledBackEvent(await this.calls.rollback(id, reason)))
  }

  async #cancel(): Promise<void> {
    await this.calls.cancel(this.#deployment.id)
    this.dispatchEvent(new NoticeEvent(t('The deployment was cancelled')))
    this.dispatchEvent(new DeploymentCancelEvent())
  }

  async #mark(status: FinalStatus): Promise<void> {
    this.dispatchEvent(new DeploymentMarkEvent(await this.calls.mark(this.#deployment.id, status)))
    this.dispatchEvent(new NoticeEvent(status === 'failed' ? t('Marked as failed') : t('Marked as success')))
  }
}

const isGoing = ({ status }: DeploymentRow): boolean => status === 'queued' || status === 'running'
const markWords = (deployment: DeploymentRow, asSuccess: string, asFailed: string): string =>
  opposite(deployment) === 'success' ? asSuccess : asFailed
const opposite = ({ status }: DeploymentRow): FinalStatus => (status === 'failed' ? 'success' : 'failed')

/** What is deployed again, where to, what that changes, and why. */
function rollbackWords({ source, project, inPlace, changes }: Rollback): Template {
  const { fileCount, archiveBytes, projectName, env, startTime } = source
  const rows: Array<[string, unknown]> = [
    [t('Version'), html`<span translate="no">${deploymentWords(source)}</span>`],
    [t('Commit'), originOf(source.provenance)],
    [t('Deployed'), html`<svc-time at="${startTime}"></svc-time>`],
    [t('Files'), fileCount === null ? null : numberWords(fileCount)],
    [t('Archive'), archiveBytes === null ? null : sizeWords(archiveBytes)],
    [t('Project'), html`<b translate="no">${projectName}</b> (${env})`],
    [t('Target'), project === null ? '…' : html`<code translate="no">${project.deployPath}</code>`]
  ]
  return html`
    <dl class="version">${rows.filter(([, value]) => value !== null).map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>
    <p>${t('The archive of this version is deployed again, with the project’s scripts. Files in the directory that are not in it stay.')}</p>
    ${inPlace?.id === source.id
      ? html`<p class="muted">${t('Its files are the ones in place now: they are put there once more.')}</p>`
      : null}
    ${changes === null ? null : changesOf(changes)}
    ${field({ form: 'rollback', name: 'reason', label: t('Reason (optional)'), hint: t('Shown as the message of the new deployment.'), maxLength: maxReason })}`
}

/** Against what is in place: what is only in the older one comes back, what is only in the newer one stays. */
function changesOf({ added, changed, removed }: Changes): Template {
  const most = 200
  const files = [...added.map(path => `+ ${path}`), ...changed.map(path => `~ ${path}`)]
  if (files.length === 0) {
    return html`
      <p class="muted">
        ${removed.length === 0
          ? t('Against what is in place, no file changes.')
          : t('Against what is in place, no file changes; {files} will stay.', { files: countWords(removed.length, 'newer file') })}
      </p>`
  }
  const values = { files: countWords(changed.length, 'file'), added: numberWords(added.length), left: numberWords(removed.length) }
  return html`
    <div class="changes">
      <p>
        ${removed.length === 0
          ? t('{files} replaced, {added} brought back:', values)
          : t('{files} replaced, {added} brought back, {left} newer left in place:', values)}
      </p>
      <ul tabindex="0" aria-label="${t('Files that change')}">${files.slice(0, most).map(file => html`<li>${file}</li>`)}</ul>
      ${files.length > most ? html`<p class="muted small">${t('and {count} more', { count: numberWords(files.length - most) })}</p>` : null}
    </div>`
}
