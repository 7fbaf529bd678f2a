import { notice, said } from '../events.js'
import type { DeploymentRow } from '../../../lib/model/deployment.js'
import type { Calls } from '../../server/calls.js'
import { css, SvcElement } from '../../dom/element.js'
import { html, icon, type Template } from '../../dom/html.js'
import { errorLine } from '../base/field.js'
import { Submission } from '../base/submission.js'
import { spanWords } from '../base/words.js'
import { numberWords, t } from '../../words/t.js'
import { mayDecide } from '../../state/rights.js'
import { serverNow } from '../../state/server-clock.js'

type Held = Pick<DeploymentRow, 'id' | 'status' | 'heldFor' | 'holdUntil' | 'checks' | 'steps' | 'tokenId'>

/**
 * What happens after the files of a deployment are in place: its checks, the time that is left to confirm it, and the
 * buttons to confirm or revert it. Properties: `deployment`, `calls`. Events: `decided`, `notice`.
 */
export class SvcHold extends SvcElement {
  static override sheet = css`
    svc-hold {
      display: grid;
      gap: 16px;

      .window { display: flex; flex-wrap: wrap; align-items: center; justify-content: space-between; gap: 12px 24px; }
      .window p { min-width: 0; }
      .left { font-weight: 600; }
      .window .actions { display: flex; flex-wrap: wrap; gap: 8px; }
      .scroller { overflow-x: auto; }
      table { width: 100%; border-collapse: collapse; font-size: var(--size-13); }
      th { color: var(--muted); font-weight: 400; text-align: left; white-space: nowrap; }
      th, td { padding: 4px 16px 4px 0; vertical-align: top; }
      th:last-child, td:last-child { padding-right: 0; text-align: right; }
      td { overflow-wrap: anywhere; }
      td .icon { margin-right: 8px; vertical-align: -3px; }
      tr[data-state='success'] .icon { color: var(--success); }
      tr[data-state='failed'] .icon { color: var(--failure); }
      tr[data-state='failed'] .answer { color: var(--failure); }
      @media (max-width: 719px) {
        .window .actions { width: 100%; }
        .window .actions > button { flex: 1; }
      }
    }
  `

  calls!: Pick<Calls, 'confirm' | 'revert'>
  deployment: Held = { id: '', status: 'queued', heldFor: null, holdUntil: null, checks: [], steps: [], tokenId: null }
  readonly #submission = new Submission(() => this.update())

  protected override connected(): void {
    this.every(1000, () => {
      if (this.#isWaiting) this.update()
    })
  }

  /** Whether the deployment waits to be confirmed. */
  get #isWaiting(): boolean {
    const { status, steps } = this.deployment
    return status === 'running' && steps.some(step => step.name === 'confirm' && step.status === 'running')
  }

  /** Whether the earlier files can be put back now. */
  get #isHeld(): boolean {
    const { status, steps } = this.deployment
    const isLate = steps.some(({ name }) => name === 'revert')
    return status === 'running' && !isLate && steps.some(({ name }) => name === 'check' || name === 'confirm')
  }

  protected override view(): Template {
    const { checks } = this.deployment
    if (!this.#isHeld && checks.length === 0) return html``
    return html`${this.#isHeld ? this.#window() : null}${checks.length === 0 ? null : this.#table()}`
  }

  #window(): Template {
    const { holdUntil } = this.deployment
    const leftMs = holdUntil === null ? 0 : Math.max(0, Date.parse(holdUntil) - serverNow())
    const left = html`<span class="left number" role="timer">${spanWords(Math.floor(leftMs / 1000) * 1000)}</span>`
    return html`
      <div class="card padded window">
        <p>
          ${
            this.#isWaiting
              ? html`${t('Waiting for a confirmation. The earlier files are put back in')} ${left}`
              : t(
                  'The checks run. If they fail, the policy of the project decides whether the earlier files are put back.'
                )
          }
        </p>
        ${mayDecide(this.deployment) ? this.#actions() : null}
        ${errorLine(this.#submission.problem)}
      </div>`
  }

  #actions(): Template {
    const button = (decision: 'confirm' | 'revert', words: string, kind: string): Template => html`
      <button type="button" class="${kind}" disabled="${this.#submission.isBusy}"
        @click="${() => void this.#decide(decision)}">${words}</button>`
    return html`
      <div class="actions">
        ${button('revert', t('Revert now'), 'danger')}
        ${this.#isWaiting ? button('confirm', t('Confirm'), 'primary') : null}
      </div>`
  }

  #table(): Template {
    const rows = this.deployment.checks.map(({ check, ok, attempts, message }) => {
      const state = ok ? 'success' : 'failed'
      return html`
        <tr data-state="${state}">
          <td>${icon(state)}<span class="unseen">${ok ? t('passed') : t('failed')}</span><code translate="no">${check}</code></td>
          <td class="answer" translate="no">${message}</td>
          <td class="number">${numberWords(attempts)}</td>
        </tr>`
    })
    return html`
      <section class="checks">
        <h2>${t('Checks')}</h2>
        <div class="scroller" tabindex="0" role="region" aria-label="${t('Checks')}">
          <table>
            <thead><tr><th scope="col">${t('Check')}</th><th scope="col">${t('Answer')}</th><th scope="col">${t('Attempts')}</th></tr></thead>
            <tbody>${rows}</tbody>
          </table>
        </div>
      </section>`
  }

  async #decide(decision: 'confirm' | 'revert'): Promise<void> {
    await this.#submission.run(async () => {
      const deployment = await this.calls[decision](this.deployment.id)
      this.dispatchEvent(said('decided', { deployment }))
      const words = decision === 'confirm' ? t('The deployment was confirmed') : t('The earlier files are back')
      if (decision === 'confirm' || deployment.revertedAt !== null) this.dispatchEvent(notice(words))
    })
  }
}
