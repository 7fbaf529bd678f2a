import type { Deployment, DeploymentRow, FinalStatus } from '../../../lib/model/deployment.js'
import type { Changes } from '../../../lib/model/manifest.js'
import type { Project } from '../../../lib/model/project.js'
import type { Calls } from '../../server/calls.js'
import { css, SvcElement } from '../../dom/element.js'
import { html, icon } from '../../dom/html.js'
import type { Template } from '../../dom/html.js'
import { originOf } from '../base/facts.js'
import { field, submitted } from '../base/field.js'
import { liveAmong } from './live.js'
import { question } from '../base/question.js'
import type { Question } from '../base/question.js'
import { NoticeEvent } from '../base/svc-notices.js'
import { deploymentWords } from '../base/words.js'
import { formatBytes } from '../../shared/size.js'
import { countWords, numberWords, t } from '../../words/t.js'
import { Submission } from '../base/submission.js'

/** A new deployment has begun that deploys an older archive again. */
export class RolledBackEvent extends Event {
  constructor(readonly deployId: string) {
    super('rolledback', { bubbles: true })
  }
}

/** The deployment was cancelled. */
export class DeploymentCancelEvent extends Event {
  constructor() {
    super('deploymentcancel', { bubbles: true })
  }
}

/** The status of the deployment was corrected. Contains the updated record. */
export class DeploymentMarkEvent extends Event {
  constructor(readonly deployment: Deployment) {
    super('deploymentmark', { bubbles: true })
  }
}

declare global {
  interface HTMLElementEventMap {
    rolledback: RolledBackEvent
    deploymentcancel: DeploymentCancelEvent
    deploymentmark: DeploymentMarkEvent
  }
}

/** Number of the newest deployments to load: enough to find the live one. */
const neighbours = 20
/** Limit of the server, in characters. */
const maxReason = 500

type Dialog = 'none' | 'roll_back' | 'cancel' | 'mark'

/** The deployment to repeat, and how it changes the live files. */
interface Rollback {
  source: DeploymentRow
  /** Null if not known (yet). */
  project: Project | null
  /** Null if not known (yet). */
  inPlace: DeploymentRow | null
  changes: Changes | null
}

/**
 * The actions on a deployment, each with a confirmation: roll back to it, deploy it again, cancel it, correct its
 * status. Properties: `deployment`, `calls`. Events: `rolledback`, `deploymentcancel`, `deploymentmark`, `notice`.
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
  deployment!: DeploymentRow
  /** The deployment to roll back to after a failure. */
  #lastGood: DeploymentRow | null = null
  #rollback: Rollback | null = null
  #dialog: Dialog = 'none'
  readonly #submission = new Submission(() => this.update())

  protected override changed(name: string, before: unknown): void {
    if (name !== 'deployment' || (before as DeploymentRow).status === 'failed') return
    if (this.deployment.status === 'failed') void this.#findLastGood(this.deployment)
  }

  protected override connected(): void {
    if (this.deployment.status === 'failed') void this.#findLastGood(this.deployment)
  }

  protected override view(): Template {
    const deployment = this.deployment
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
      ${
        status === 'failed' && this.#lastGood !== null
          ? again(this.#lastGood, t('Roll back to last successful…'), 'primary')
          : null
      }`
  }

  #dialogs(deployment: DeploymentRow): Template {
    const isAgain = this.#rollback?.source.status === 'failed'
    const headings: Record<Dialog, string> = {
      none: '',
      roll_back: isAgain
        ? t('Deploy this archive again?')
        : t('Roll back {project}?', { project: deployment.projectName }),
      cancel: t('Cancel this deployment?'),
      mark: markWords(deployment, t('Mark this deployment as success?'), t('Mark this deployment as failed?'))
    }
    return html`
      <svc-dialog heading="${headings[this.#dialog]}" .content="${this.#dialogContent(deployment)}"
        @dialogclose="${() => this.#open('none')}"></svc-dialog>`
  }

  #dialogContent(deployment: DeploymentRow): Template | null {
    if (this.#dialog === 'none') return null
    const form = ({ work, ...asked }: Asked): Template =>
      question({
        ...asked,
        submission: this.#submission,
        refusal: t('Not now'),
        onAnswer: event => void this.#do(event, work),
        onRefusal: () => this.#open('none')
      })
    if (this.#dialog === 'roll_back' && this.#rollback !== null) {
      const { source } = this.#rollback
      const button = source.status === 'failed' ? t('Deploy again') : t('Roll back')
      return form({
        asked: rollbackWords(this.#rollback),
        answer: button,
        kind: 'primary',
        work: reason => this.#rollBack(source, reason)
      })
    }
    if (this.#dialog === 'cancel') {
      const words =
        deployment.status === 'queued'
          ? html`
          <p>
            ${t('It is queued behind another deployment of {project}. It will be recorded as failed, and no file changes.', { project: deployment.projectName })}
          </p>`
          : deployment.heldFor !== null
            ? html`<p>${t('If its files are in place already, the earlier files are put back. The deployment is recorded as failed.')}</p>`
            : html`
          <p>
            ${t('Its script and all processes that the script started are stopped, and the deployment is recorded as failed. Files already written stay.')}
          </p>`
      return form({ asked: words, answer: t('Cancel deployment'), work: () => this.#cancel() })
    }
    const status = opposite(deployment)
    const words = html`
      <p>
        ${status === 'failed' ? t('The status changes from success to failed.') : t('The status changes from failed to success.')} ${t('Nothing runs or changes on the server. The correction is written to the output and the audit log, and a notification is sent.')}
      </p>`
    return form({
      asked: words,
      answer: status === 'failed' ? t('Mark as failed') : t('Mark as success'),
      kind: 'primary',
      work: () => this.#mark(status)
    })
  }

  #open(dialog: Dialog): void {
    this.#dialog = dialog
    this.#submission.refuse(null)
  }

  async #findLastGood({ projectId }: DeploymentRow): Promise<void> {
    try {
      const { items } = await this.calls.deployments({ projectId, status: 'success', limit: neighbours }, this.signal)
      this.#lastGood = items.find(item => item.hasArtifact) ?? null
      this.update()
    } catch {
      // The rollback is only an offer. Without it, the page still shows what failed.
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
    // The list of changes is optional. If it cannot be loaded, the rollback reports the problem itself.
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
    if (await this.#submission.run(() => work(reason.trim()))) this.#open('none')
  }

  async #rollBack({ id }: DeploymentRow, reason: string): Promise<void> {
    this.dispatchEvent(new RolledBackEvent(await this.calls.rollback(id, reason)))
  }

  async #cancel(): Promise<void> {
    await this.calls.cancel(this.deployment.id)
    this.dispatchEvent(new NoticeEvent(t('The deployment was cancelled')))
    this.dispatchEvent(new DeploymentCancelEvent())
  }

  async #mark(status: FinalStatus): Promise<void> {
    this.dispatchEvent(new DeploymentMarkEvent(await this.calls.mark(this.deployment.id, status)))
    this.dispatchEvent(new NoticeEvent(status === 'failed' ? t('Marked as failed') : t('Marked as success')))
  }
}

/** A question of this element, and the work to do if the user agrees. */
type Asked = Pick<Question, 'asked' | 'answer' | 'kind'> & { work: (reason: string) => Promise<void> }

const isGoing = ({ status }: DeploymentRow): boolean => status === 'queued' || status === 'running'
const markWords = (deployment: DeploymentRow, asSuccess: string, asFailed: string): string =>
  opposite(deployment) === 'success' ? asSuccess : asFailed
const opposite = ({ status }: DeploymentRow): FinalStatus => (status === 'failed' ? 'success' : 'failed')

/** Returns what is deployed again, where, what changes, and the field for the reason. */
function rollbackWords({ source, project, inPlace, changes }: Rollback): Template {
  const { fileCount, archiveBytes, projectName, env, startTime } = source
  const rows: Array<[string, unknown]> = [
    [t('Version'), html`<span translate="no">${deploymentWords(source)}</span>`],
    [t('Commit'), originOf(source.provenance)],
    [t('Deployed'), html`<svc-time at="${startTime}"></svc-time>`],
    [t('Files'), fileCount === null ? null : numberWords(fileCount)],
    [t('Archive'), archiveBytes === null ? null : formatBytes(archiveBytes)],
    [t('Project'), html`<b translate="no">${projectName}</b> (${env})`],
    [t('Target'), project === null ? '…' : html`<code translate="no">${project.deployPath}</code>`]
  ]
  return html`
    <dl class="version">${rows.filter(([, value]) => value !== null).map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>
    <p>${t('The archive of this version is deployed again, and the scripts of the project run. Files that the archive does not contain stay.')}</p>
    ${
      inPlace?.id === source.id
        ? html`<p class="muted">${t('This version is live now. Its files are written again.')}</p>`
        : null
    }
    ${changes === null ? null : changesOf(changes)}
    ${field({ form: 'rollback', name: 'reason', label: t('Reason (optional)'), hint: t('Shown as the message of the new deployment.'), maxLength: maxReason })}`
}

/**
 * Returns the changes against the live files: files only in the older deployment are restored, files only in the newer
 * one stay.
 */
function changesOf({ added, changed, removed }: Changes): Template {
  const most = 200
  const files = [...added.map(path => `+ ${path}`), ...changed.map(path => `~ ${path}`)]
  if (files.length === 0) {
    return html`
      <p class="muted">
        ${
          removed.length === 0
            ? t('No file differs from the live version.')
            : t('No file differs from the live version; {files} will stay.', {
                files: countWords(removed.length, 'newer file')
              })
        }
      </p>`
  }
  const values = {
    files: countWords(changed.length, 'file'),
    added: numberWords(added.length),
    left: numberWords(removed.length)
  }
  return html`
    <div class="changes">
      <p>
        ${
          removed.length === 0
            ? t('{files} replaced, {added} restored:', values)
            : t('{files} replaced, {added} restored, {left} newer kept:', values)
        }
      </p>
      <ul tabindex="0" aria-label="${t('Changed files')}">${files.slice(0, most).map(file => html`<li>${file}</li>`)}</ul>
      ${files.length > most ? html`<p class="muted small">${t('and {count} more', { count: numberWords(files.length - most) })}</p>` : null}
    </div>`
}
