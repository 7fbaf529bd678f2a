import type { ListedDeployment } from '../../../lib/model/deployment.js'
import type { RollbackPlan } from '../../../lib/model/plan.js'
import type { Approval } from '../../../lib/model/policy.js'
import type { Waiting } from '../../../lib/model/marks.js'
import { css, notice, said, SvcElement } from '../element.js'
import { html, icon, type Template } from '../../dom/html.js'
import { errorLine, field, question, Submission, submitted } from '../base/form.js'
import { roleWords, timeWords, waitingWords } from '../base/words.js'
import { serverNow, type Client } from '../../server/client.js'
import { mayApprove } from '../../state/session.js'
import { countWords, t, actorWords } from '../../words/t.js'
import { rollbackPlanView } from './plan-view.js'

type Shown = Pick<
  ListedDeployment,
  | 'id'
  | 'projectId'
  | 'status'
  | 'heldFor'
  | 'holdUntil'
  | 'startAt'
  | 'startTime'
  | 'steps'
  | 'tokenId'
  | 'treeSha256'
  | 'approvals'
>

/** Limit of the server, in characters. */
const maxComment = 500
/** The approval of a policy that asks for none any more. */
const fallback: Pick<Approval, 'count' | 'roles' | 'notPusher'> = { count: 1, roles: ['operator'], notPusher: true }

/**
 * A deployment that waits before it begins: what it waits for, what it would change, both decisions, and who has decided.
 * Properties: `deployment`, `waiting`, `client`, `wanted` (the decision that a link asked for: its dialog opens). Events: `decided`,
 * `notice`.
 */
export class SvcApproval extends SvcElement {
  static override sheet = css`
    svc-approval {
      display: grid;
      grid-template-columns: minmax(0, 1fr);
      gap: 16px;

      .card { display: grid; grid-template-columns: minmax(0, 1fr); gap: 12px; }
      .head { display: flex; flex-wrap: wrap; align-items: center; justify-content: space-between; gap: 12px 24px; }
      .head p { min-width: 0; font-weight: 600; }
      .head p::first-letter { text-transform: uppercase; }
      .actions { display: flex; flex-wrap: wrap; gap: 8px; }
      .tree { overflow-wrap: anywhere; }
      .decisions li { display: flex; gap: 8px; overflow-wrap: anywhere; }
      .decisions svc-time { margin-left: 8px; }
      .decisions .icon { flex: none; margin-top: 2px; }
      .decisions li[data-decision='approved'] .icon { color: var(--success); }
      .decisions li[data-decision='rejected'] .icon { color: var(--failure); }
      @media (max-width: 719px) {
        .head .actions { width: 100%; }
        .head .actions > button { flex: 1; }
      }
    }
  `

  client!: Client
  deployment!: Shown
  /** What it waits for; null: it has begun. */
  waiting: Pick<Waiting, 'for' | 'until'> | null = null
  wanted: string | null = null
  #plan: RollbackPlan | null = null
  #approval: Pick<Approval, 'count' | 'roles' | 'notPusher'> | null = null
  #dialog: 'none' | 'approve' | 'reject' = 'none'
  #problem: string | null = null
  readonly #submission = new Submission(this)

  protected override connected(): void {
    if (this.#isWaiting) void this.#load()
  }

  get #isWaiting(): boolean {
    return this.deployment.status === 'queued' && this.deployment.heldFor !== null
  }

  async #load(): Promise<void> {
    const { id, projectId } = this.deployment
    await Promise.allSettled([
      this.client.call('GET /api/projects/:id', { id: projectId, signal: this.signal }).then(({ policy }) => {
        this.#approval = policy.approval ?? fallback
        if (this.wanted === 'approve' || this.wanted === 'reject') this.#dialog = this.#mayDecide ? this.wanted : 'none'
        this.update()
      }),
      this.client.call('GET /api/deployments/:id/plan', { id, signal: this.signal }).then(
        plan => (this.#plan = plan),
        (error: Error) => (this.#problem = error.name === 'AbortError' ? null : error.message)
      )
    ])
    this.update()
  }

  get #mayDecide(): boolean {
    const { heldFor } = this.deployment
    return heldFor === 'approval' && this.#approval !== null && mayApprove(this.#approval, this.deployment)
  }

  /** Says why the signed-in token does not decide. */
  #whyNot(): Template | null {
    if (this.#approval === null || this.#mayDecide) return null
    const isOwn = mayApprove({ ...this.#approval, notPusher: false }, this.deployment)
    const roles = this.#approval.roles.map(role => t(roleWords[role])).join(', ')
    return html`<p class="muted small">${isOwn ? t('You have started it: somebody else must approve it.') : t('Only the role {roles} decides.', { roles })}</p>`
  }

  protected override view(): Template {
    return html`
      ${this.#isWaiting ? this.#card() : null}
      ${this.deployment.approvals.length === 0 ? null : this.#decisions()}
      <svc-dialog heading="${this.#dialog === 'reject' ? t('Reject this deployment?') : t('Approve this deployment?')}" .content="${this.#content()}"
        @dialogclose="${() => this.#open('none')}"></svc-dialog>`
  }

  #card(): Template {
    const { heldFor, startAt, treeSha256, approvals } = this.deployment
    const { count } = this.#approval ?? fallback
    const missing = Math.max(1, count - approvals.length)
    return html`
      <section class="card padded">
        <div class="head">
          <p>${this.waiting === null ? null : waitingWords(this.waiting, serverNow())}</p>
          ${
            this.#mayDecide
              ? html`
              <div class="actions">
                <button type="button" class="danger" @click="${() => this.#open('reject')}">${t('Reject…')}</button>
                <button type="button" class="primary" @click="${() => this.#open('approve')}">${t('Approve…')}</button>
              </div>`
              : null
          }
        </div>
        ${
          heldFor === 'approval'
            ? html`<p class="muted small">${t('Still needed: {approvals}. Nothing is in place yet.', { approvals: countWords(missing, 'approval') })} ${startAt === null ? null : t('It begins at {time}.', { time: timeWords(startAt) })}</p>${this.#whyNot()}`
            : html`<p class="muted small">${t('Nothing is in place yet. Others of the project go ahead.')}</p>`
        }
        ${this.#problem === null ? rollbackPlanView(this.#plan, false, true) : errorLine(this.#problem)}
        ${treeSha256 === null ? null : html`<p class="tree muted small">${t('Tree')} <code>${treeSha256}</code></p>`}
      </section>`
  }

  #decisions(): Template {
    return html`
      <section class="section">
        <h2>${t('Approvals')}</h2>
        <ul class="decisions">${this.deployment.approvals.map(
          ({ decision, name, at, comment }) => html`
          <li data-decision="${decision}">
            ${icon(decision === 'approved' ? 'success' : 'failed')}
            <span>${decision === 'approved' ? t('approved by {name}', { name: actorWords(name) }) : t('rejected by {name}', { name: actorWords(name) })}
              <svc-time class="muted" at="${at}"></svc-time>${comment === null ? null : html` <span translate="no">“${comment}”</span>`}</span>
          </li>`
        )}</ul>
      </section>`
  }

  #content(): Template | null {
    if (this.#dialog === 'none') return null
    const isApproval = this.#dialog === 'approve'
    const asked = html`
      <p>${isApproval ? t('You approve exactly these files. The deployment begins when it has all approvals.') : t('The deployment is recorded as failed. Nothing of it was put in place.')}</p>
      ${field({ form: 'approval', name: 'comment', label: t('Comment (optional)'), maxLength: maxComment, hasFocus: true })}`
    return question({
      asked,
      submission: this.#submission,
      answer: isApproval ? t('Approve') : t('Reject'),
      kind: isApproval ? 'primary' : 'danger primary',
      refusal: t('Not now'),
      onAnswer: event => void this.#decide(event, isApproval),
      onRefusal: () => this.#open('none')
    })
  }

  #open(dialog: 'none' | 'approve' | 'reject'): void {
    this.#dialog = dialog
    this.#submission.refuse(null)
    this.update()
  }

  async #decide(event: Event, isApproval: boolean): Promise<void> {
    const comment = submitted(event)['comment']?.trim() || null
    const { id, treeSha256 } = this.deployment
    await this.#submission.run(async () => {
      const { deployment } = isApproval
        ? await this.client.call('POST /api/deployments/:id/approve', {
            id,
            body: { treeSha256: treeSha256 ?? '', comment }
          })
        : await this.client.call('POST /api/deployments/:id/reject', { id, body: { comment } })
      this.#dialog = 'none'
      this.dispatchEvent(said('decided', { deployment }))
      this.dispatchEvent(notice(isApproval ? t('The deployment was approved') : t('The deployment was rejected')))
    })
  }
}
