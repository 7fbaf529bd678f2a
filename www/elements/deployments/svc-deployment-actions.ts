import type { Client } from '../../server/client.js'
import type { DeploymentRow, FinalStatus, ListedDeployment } from '../../../lib/model/deployment.js'
import { shownStatus, formatBytes } from '../../shared/api.js'
import { notice, said, css, SvcElement, type Wish } from '../element.js'
import type { RollbackPlan } from '../../../lib/model/plan.js'
import type { ShownProject as Project } from '../../../lib/model/project.js'
import { readDeployments, type RollbackWish, startDeployment } from '../../server/requests.js'
import { html, icon, type Template } from '../../dom/html.js'
import { originOf } from '../base/facts.js'
import { field, question, type Question, Submission, submitted } from '../base/form.js'
import { overrideField } from './override-field.js'
import { isHeld } from './record.js'
import { deploymentWords, isGoing, wayBackOf } from '../base/words.js'
import { numberWords, t } from '../../words/t.js'
import { may, mayDecide } from '../../state/session.js'

/* Finds the deployment whose files are, or were, in the target of a project. Pure. */

type Placed = Pick<DeploymentRow, 'id' | 'placed' | 'status'>

/** Returns the last deployment that changed the target, or null if none of these is known to have changed it. */
export function liveAmong<T extends Placed>(items: readonly T[]): T | null {
  return items.reduce<T | null>((live, item) => ((item.placed ?? 0) > (live?.placed ?? 0) ? item : live), null)
}

/**
 * Returns the deployment that was live before the given one, among these, which begin with the newest. A deployment that
 * is not among them is older than all. If that is unknown, returns the newest successful
 * deployment before it, else the one before it, else the first one after it.
 */
export function liveBefore<T extends Placed>(items: readonly T[], { id, placed }: Placed): T | null {
  const others = items.filter(item => item.id !== id)
  const at = items.findIndex(item => item.id === id)
  const earlier = at === -1 ? [] : items.slice(at + 1)
  const wasThere = (item: T): boolean => (placed === null ? earlier.includes(item) : (item.placed ?? 0) < placed)
  return (
    liveAmong(others.filter(wasThere)) ??
    earlier.find(({ status }) => status === 'success') ??
    earlier[0] ??
    others.at(-1) ??
    null
  )
}

/** Number of the newest deployments to load: enough to find the live one. */
const neighbours = 20
/** Limit of the server, in characters. */
const maxReason = 500

type Dialog = 'none' | 'roll_back' | 'cancel' | 'mark' | 'promote'
type PlanView = typeof import('./plan-view.js').rollbackPlanView

/** The projects that a release can be promoted to, the chosen one, and what that would do. */
interface Promotion {
  /** Null if not known yet. */
  projects: readonly Project[] | null
  to: string
  /** Null if not known yet, or if the nodes of the project find out for themselves. */
  plan: RollbackPlan | null
}

/** The deployment to go back to, how, and what that would do. */
interface Rollback {
  source: ListedDeployment
  /** Null if not known (yet). */
  project: Project | null
  /** Null if not known (yet). */
  inPlace: DeploymentRow | null
  /** Null: as the policy of the project says. */
  mode: RollbackPlan['mode'] | null
  /** Whether files that were edited since are taken back, too. */
  force: boolean
  /** Null if not known yet. */
  plan: RollbackPlan | null
}

/**
 * The actions on a deployment, each with a confirmation: roll back to it, deploy it again, promote it to another project,
 * cancel it, correct its status. Properties: `deployment`, `client`; `isRollout`: it was rolled out to nodes, and so is what goes
 * back to it; `wish`: the dialog to open, if its button is there. Events: `rolledback`, `deploymentcancel`, `deploymentmark`, `notice`.
 */
export class SvcDeploymentActions extends SvcElement {
  static override sheet = css`
    svc-deployment-actions {
      .version { display: grid; grid-template-columns: auto minmax(0, 1fr); gap: 4px 16px; }
      .version dt { color: var(--muted); }
      .version dd { margin: 0; min-width: 0; overflow-wrap: anywhere; }
      .modes { display: grid; gap: 8px; min-width: 0; margin: 0; padding: 0; border: 0; }
      .modes label { display: grid; grid-template-columns: auto minmax(0, 1fr); gap: 0 8px; align-items: baseline; cursor: pointer; }
      .modes small { grid-column: 2; color: var(--muted); }
      .changes { display: grid; gap: 4px; }
      .changes .warning { display: flex; gap: 8px; overflow-wrap: anywhere; }
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

  client!: Client
  deployment!: ListedDeployment
  isRollout = false
  wish: Wish | null = null
  /** Whether its files are in the target. */
  #isLive = false
  /** The deployment to roll back to after a failure. */
  #lastGood: DeploymentRow | null = null
  #rollback: Rollback | null = null
  #promotion: Promotion = { projects: null, to: '', plan: null }
  #planning = new AbortController()
  #dialog: Dialog = 'none'
  readonly #submission = new Submission(this)
  #planView: PlanView | undefined

  protected override changed(name: string, before: unknown): void {
    if (name === 'wish') this.#grant()
    if (name !== 'deployment') return
    const earlier = before as ListedDeployment
    const isOther = earlier.id !== this.deployment.id
    if (isOther) this.#isLive = false
    if (isOther || isGoing(earlier) || isFailed(earlier) !== isFailed(this.deployment)) void this.#look()
  }

  protected override connected(): void {
    void this.#look()
    this.#grant()
  }

  #grant(): void {
    const { deployment, wish } = this
    if (wish?.what === 'promote' && mayPromote(deployment)) void this.#openPromotion(wish.to)
    else if (wish?.what === 'roll_back' && mayReturnTo(deployment)) void this.#openRollback(deployment)
  }

  protected override view(): Template {
    const deployment = this.deployment
    return html`<div class="actions">${this.#actions(deployment)}</div>${this.#dialogs(deployment)}`
  }

  #actions(deployment: ListedDeployment): unknown {
    if (isGoing(deployment)) {
      if (!mayDecide(deployment) || isHeld(deployment)) return null
      return html`<button type="button" class="danger" @click="${() => this.#open('cancel')}">${t('Cancel…')}</button>`
    }
    const { hasArtifact } = deployment
    const hasFailed = isFailed(deployment)
    const again = (source: DeploymentRow, words: string, kind: string | null): Template | null =>
      !may('rollback')
        ? null
        : html`
      <button type="button" class="${kind}" @click="${() => void this.#openRollback(source)}">
        ${icon(this.#isAgain(source) ? 'deployments' : 'roll-back')}${words}
      </button>`
    return html`
      ${
        may('mark')
          ? html`<button type="button" @click="${() => this.#open('mark')}">${markWords(deployment, t('Mark as success…'), t('Mark as failed…'))}</button>`
          : null
      }
      ${
        mayPromote(deployment)
          ? html`<button type="button" @click="${() => void this.#openPromotion()}">${icon('next')}${t('Promote…')}</button>`
          : null
      }
      ${hasArtifact && this.#isAgain(deployment) ? again(deployment, t('Deploy again…'), null) : null}
      ${mayReturnTo(deployment) && !this.#isLive ? again(deployment, t('Roll back to this…'), 'primary') : null}
      ${
        hasFailed && this.#lastGood !== null
          ? again(this.#lastGood, t('Roll back to last successful…'), 'primary')
          : null
      }`
  }

  #dialogs(deployment: ListedDeployment): Template {
    const isAgain = this.#rollback !== null && this.#isAgain(this.#rollback.source)
    const headings: Record<Dialog, string> = {
      none: '',
      roll_back: isAgain
        ? t('Deploy this archive again?')
        : t('Roll back {project}?', { project: deployment.projectName }),
      promote: t('Promote this release'),
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
      const button = this.#isAgain(source) ? t('Deploy again') : t('Roll back')
      return form({
        asked: this.isRollout
          ? rolloutWords(this.#rollback)
          : rollbackWords(this.#rollback, this.#changes, patch => this.#choose(patch)),
        answer: button,
        kind: 'primary',
        work: ({ reason }) => this.#rollBack(source, reason)
      })
    }
    if (this.#dialog === 'promote') {
      const { to } = this.#promotion
      return form({
        asked: promotionWords(
          this.#promotion,
          { source: deployment, changes: this.#changes },
          id => void this.#promoteTo(id)
        ),
        answer: t('Promote'),
        kind: 'primary',
        work: given => this.#promote(to, given)
      })
    }
    if (this.#dialog === 'cancel') {
      const words =
        deployment.status === 'queued'
          ? deployment.heldFor !== null
            ? html`<p>${t('It has not begun. It will be recorded as failed, and no file changes.')}</p>`
            : html`
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

  /** Whether to deploy it is to repeat it: it failed, or its files are live. */
  #isAgain(source: ListedDeployment): boolean {
    return isFailed(source) || (this.#isLive && source.id === this.deployment.id)
  }

  /** Finds out whether the deployment is live and, after a failure, what to go back to. */
  async #look(): Promise<void> {
    const { id, projectId } = this.deployment
    if (isGoing(this.deployment) || !may('rollback')) return
    try {
      const { broken, live } = await this.client.call('GET /api/projects/:id/overview', {
        id: projectId,
        signal: this.signal
      })
      this.#isLive = live?.id === id
      this.update()
      const wanted = broken === null || !isFailed(this.deployment) ? null : wayBackOf(broken)
      if (wanted === null) return
      this.#lastGood = await this.client.call('GET /api/logs/:deployId', {
        deployId: wanted.id,
        query: { output: 'end' },
        signal: this.signal
      })
      this.update()
    } catch {
      // The rollback is only an offer. Without it, the page still shows what failed.
    }
  }

  /** Shows what would change. The module is loaded when the first dialog needs it. */
  readonly #changes: PlanView = (plan, force, isNew) =>
    this.#planView?.(plan, force, isNew) ?? html`<p class="muted" aria-busy="true">${t('Loading…')}</p>`

  async #loadPlanView(): Promise<void> {
    this.#planView ??= (await import('./plan-view.js')).rollbackPlanView
    this.update()
  }

  async #openRollback(source: DeploymentRow): Promise<void> {
    const { client } = this
    this.#loadPlanView().catch(error => this.#submission.refuse(error))
    // On nodes, an archive is rolled out again, whatever the policy says about targets here.
    const mode = this.isRollout ? 'overlay' : source.exact ? 'exact' : null
    this.#rollback = { source, project: null, inPlace: null, mode, force: false, plan: null }
    this.#open('roll_back')
    // These facts are optional. If they cannot be loaded, the rollback reports the problem itself.
    await Promise.allSettled([
      client
        .call('GET /api/projects/:id', { id: source.projectId, signal: this.signal })
        .then(project => this.#tell(source, { project })),
      readDeployments(client, { projectId: source.projectId, limit: neighbours }, this.signal).then(({ items }) =>
        this.#tell(source, { inPlace: liveAmong(items) })
      ),
      // The nodes check for themselves what would change.
      this.isRollout ? null : this.#planOrSay()
    ])
  }

  async #openPromotion(to: string | null = null): Promise<void> {
    this.#promotion = { projects: null, to: '', plan: null }
    this.#open('promote')
    this.#loadPlanView().catch(error => this.#submission.refuse(error))
    try {
      const { projectId } = this.deployment
      const others = (await this.client.call('GET /api/projects', { signal: this.signal })).filter(
        ({ id }) => id !== projectId
      )
      const isWaiting = ({ policy }: Project): boolean => policy.promoteFrom?.projectId === projectId
      // First those whose releases come from here.
      const projects = [...others.filter(isWaiting), ...others.filter(other => !isWaiting(other))]
      this.#promotion = { projects, to: '', plan: null }
      this.update()
      const chosen = projects.find(project => (to === null ? isWaiting(project) : project.id === to))
      if (chosen !== undefined) await this.#promoteTo(chosen.id)
    } catch (error) {
      if (!isAbort(error)) this.#submission.refuse(error)
    }
  }

  /** Chooses the project, and asks what would change there. */
  async #promoteTo(to: string): Promise<void> {
    this.#planning.abort()
    const { signal } = (this.#planning = new AbortController())
    this.#promotion = { ...this.#promotion, to, plan: null }
    this.#submission.refuse(null)
    if (to === '') return
    try {
      const plan = await this.client.call('POST /api/projects/:id/promote', {
        id: to,
        body: { from: this.deployment.id, dryRun: true },
        signal: AbortSignal.any([signal, this.signal])
      })
      this.#promotion = { ...this.#promotion, plan }
      this.update()
    } catch (error) {
      if (!isAbort(error)) this.#submission.refuse(error)
    }
  }

  async #promote(to: string, { reason, override }: { reason: string; override: string }): Promise<void> {
    if (to === '') throw new Error(t('Choose a project.'))
    const body = { from: this.deployment.id, message: reason || null, override: override || null }
    const given = { id: to, body }
    const deployId = await startDeployment(this.client, 'POST /api/projects/:id/promote', given)
    this.dispatchEvent(said('rolledback', { deployId }))
  }

  #tell(source: DeploymentRow, known: Partial<Rollback>): void {
    if (this.#rollback?.source !== source) return
    this.#rollback = { ...this.#rollback, ...known }
    this.update()
  }

  /** Asks what the rollback would do, unless the user has changed it meanwhile. */
  async #plan(): Promise<void> {
    this.#planning.abort()
    if (this.#rollback === null) return
    const planning = (this.#planning = new AbortController())
    const { source, mode, force } = this.#rollback
    const plan = await this.client.call('POST /api/deployments/:id/rollback', {
      id: source.id,
      body: { ...wishOf({ mode, force }), dryRun: true },
      signal: AbortSignal.any([planning.signal, this.signal])
    })
    const now = this.#rollback
    if (now?.mode === mode && now.force === force) this.#tell(source, { plan, mode: plan.mode })
  }

  async #planOrSay(): Promise<void> {
    await this.#plan().catch(error => {
      if (!isAbort(error)) this.#submission.refuse(error)
    })
  }

  #choose(patch: Partial<Pick<Rollback, 'mode' | 'force'>>): void {
    if (this.#rollback === null) return
    this.#tell(this.#rollback.source, { plan: null, ...patch })
    void this.#planOrSay()
  }

  async #do(event: Event, work: Asked['work']): Promise<void> {
    const { reason = '', override = '' } = submitted(event)
    const given = { reason: reason.trim(), override: override.trim() }
    if (await this.#submission.run(() => work(given))) this.#open('none')
  }

  async #rollBack({ id }: DeploymentRow, reason: string): Promise<void> {
    const { mode, force } = this.#rollback ?? { mode: null, force: false }
    const given = { id, body: { ...wishOf({ mode, force }), message: reason || null } }
    const deployId = await startDeployment(this.client, 'POST /api/deployments/:id/rollback', given)
    this.dispatchEvent(said('rolledback', { deployId }))
  }

  async #cancel(): Promise<void> {
    await this.client.call('POST /api/deployments/:id/cancel', { id: this.deployment.id })
    this.dispatchEvent(notice(t('The deployment was cancelled')))
    this.dispatchEvent(said('deploymentcancel'))
  }

  async #mark(status: FinalStatus): Promise<void> {
    const { deployment } = await this.client.call('PATCH /api/deployments/:id/status', {
      id: this.deployment.id,
      body: { status }
    })
    this.dispatchEvent(said('deploymentmark', { deployment }))
    this.dispatchEvent(notice(status === 'failed' ? t('Marked as failed') : t('Marked as success')))
  }
}

/** A question of this element, and the work to do if the user agrees. */
type Asked = Pick<Question, 'asked' | 'answer' | 'kind'> & {
  work: (given: { reason: string; override: string }) => Promise<void>
}

/** Whether a deployment failed, also in the background: then it is not what somebody goes back to. */
const isFailed = ({ status, backgroundFailed }: ListedDeployment): boolean =>
  shownStatus(status, backgroundFailed) === 'failed'
/** Whether its archive can be deployed again as the state to go back to. */
const mayReturnTo = (deployment: ListedDeployment): boolean =>
  deployment.hasArtifact && !isGoing(deployment) && !isFailed(deployment) && may('rollback')
const mayPromote = (deployment: ListedDeployment): boolean =>
  deployment.hasArtifact && !isGoing(deployment) && !isFailed(deployment) && !deployment.exact && may('promote')
const markWords = (deployment: DeploymentRow, asSuccess: string, asFailed: string): string =>
  opposite(deployment) === 'success' ? asSuccess : asFailed
const opposite = ({ status }: DeploymentRow): FinalStatus => (status === 'failed' ? 'success' : 'failed')

/** Whether a request was given up because the user asked for something else. */
function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'AbortError'
}

function wishOf({ mode, force }: Pick<Rollback, 'mode' | 'force'>): RollbackWish {
  return { ...(mode !== null && { mode }), ...(force && { force }) }
}

/** Returns what is rolled out again, and the field for the reason. */
function rolloutWords({ source }: Rollback): Template {
  return html`
    <p>${t('Its archive is rolled out to the nodes of the project again, in waves. Files that it does not contain stay. To go back on the nodes exactly, revert the rollout instead.')}</p>
    <dl class="version">${aboutRows(source).map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>
    ${reasonField()}`
}

/** Returns where a release is promoted to, what changes there, and the field for the reason. */
function promotionWords(
  { projects, to, plan }: Promotion,
  { source, changes }: { source: DeploymentRow; changes: PlanView },
  choose: (projectId: string) => void
): Template {
  if (projects === null) return html`<p class="muted" aria-busy="true">${t('Loading…')}</p>`
  if (projects.length === 0) return html`<p>${t('There is no other project to promote to.')}</p>`
  return html`
    <p>${t('The same archive is deployed to another project, with the scripts of that project.')}</p>
    <dl class="version">${aboutRows(source).map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>
    <div class="field">
      <label for="promote-to">${t('To')}</label>
      <select id="promote-to" translate="no" @change="${(event: Event) => choose((event.currentTarget as HTMLSelectElement).value)}">
        <option value="" .selected="${to === ''}">${t('Choose a project')}</option>
        ${projects.map(
          ({ id, name, env }) => html`<option value="${id}" .selected="${id === to}">${name} (${env})</option>`
        )}
      </select>
    </div>
    ${to === '' ? null : changes(plan, false, true)}
    ${plan?.problem?.code === 'outside_window' && may('rollback') ? overrideField('rollback') : null}
    ${reasonField()}`
}

function reasonField(): Template {
  return field({
    form: 'rollback',
    name: 'reason',
    label: t('Reason (optional)'),
    hint: t('Shown as the message of the new deployment.'),
    maxLength: maxReason
  })
}

/** Returns what a deployment contains. */
function aboutRows(source: DeploymentRow): Array<[string, unknown]> {
  const { fileCount, archiveBytes, startTime } = source
  const rows: Array<[string, unknown]> = [
    [t('Version'), html`<span translate="no">${deploymentWords(source)}</span>`],
    [t('Commit'), originOf(source.provenance)],
    [t('Deployed'), html`<svc-time at="${startTime}"></svc-time>`],
    [t('Files'), fileCount === null ? null : numberWords(fileCount)],
    [t('Archive'), archiveBytes === null ? null : formatBytes(archiveBytes)]
  ]
  return rows.filter(([, value]) => value !== null)
}

/** Returns what is deployed again, where, how, what changes, and the field for the reason. */
function rollbackWords(
  { source, project, inPlace, mode, force, plan }: Rollback,
  changes: PlanView,
  choose: (patch: Partial<Pick<Rollback, 'mode' | 'force'>>) => void
): Template {
  const { projectName, env } = source
  const rows: Array<[string, unknown]> = [
    ...aboutRows(source),
    [t('Project'), html`<b translate="no">${projectName}</b> (${env})`],
    [t('Target'), project === null ? '…' : html`<code translate="no">${project.deployPath}</code>`]
  ]
  const option = (value: RollbackPlan['mode'], words: string, hint: string): Template => html`
    <label>
      <input type="radio" name="mode" value="${value}" .checked="${mode === value}" @change="${() => choose({ mode: value, force: false })}">
      <span>${words}</span><small>${hint}</small>
    </label>`
  const canTakeBack = mode === 'exact' && (force || (plan?.counts.drifted ?? 0) > 0)
  return html`
    <dl class="version">${rows.map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>
    <fieldset class="modes" aria-label="${t('How to go back')}">
      ${source.exact ? null : option('overlay', t('Put its files over the others'), t('Files that its archive does not contain stay.'))}
      ${source.placed === null ? null : option('exact', t('Restore the state exactly'), t('Paths, contents, permissions and times become those after this deployment.'))}
    </fieldset>
    ${
      inPlace?.id === source.id && mode === 'overlay'
        ? html`<p class="muted">${t('This version is live now. Its files are written again.')}</p>`
        : null
    }
    ${changes(plan, force)}
    ${
      canTakeBack
        ? html`
        <label class="check">
          <input type="checkbox" .checked="${force}" @change="${(event: Event) => choose({ force: (event.currentTarget as HTMLInputElement).checked })}">
          <span>${t('Also take back files that were edited on the server')}</span>
        </label>`
        : null
    }
    ${reasonField()}`
}
