import { said } from '../events.js'
import { maxLockReasonLength } from '../../shared/api.js'
import type { LockCalls } from '../../server/lock-calls.js'
import { css, SvcElement } from '../../dom/element.js'
import { html, icon, type Template } from '../../dom/html.js'
import { t } from '../../words/t.js'
import { field, submitted } from '../base/field.js'
import { question } from '../base/question.js'
import { Submission } from '../base/submission.js'
import { forceBox, isRefusedAs } from './svc-locks.js'

/**
 * A button that begins the maintenance of a project after asking for a reason. Properties: `projectId`, `calls`. Event:
 * `lockschange`.
 */
export class SvcMaintenance extends SvcElement {
  static override sheet = css`
    svc-maintenance { display: contents; }
  `

  projectId!: string
  calls!: LockCalls
  #isAsking = false
  readonly #submission = new Submission(() => this.update())

  protected override view(): Template {
    return html`
      <button type="button" @click="${() => this.#ask(true)}">${icon('pause')}${t('Maintenance…')}</button>
      <svc-dialog heading="${t('Begin the maintenance?')}" .content="${this.#isAsking ? this.#question() : null}"
        @dialogclose="${() => this.#ask(false)}"></svc-dialog>`
  }

  #question(): Template {
    const isTaken = isRefusedAs(this.#submission.refusal, 'maintenance_file_exists')
    return question({
      asked: html`
        <p>${t('A file is placed in the target. A web server that is configured for it shows this page instead of the site. Deployments are still accepted.')}</p>
        ${field({
          form: 'maintenance',
          name: 'reason',
          label: t('Reason (optional)'),
          hasFocus: true,
          maxLength: maxLockReasonLength,
          error: this.#submission.problemOf('reason')
        })}
        ${isTaken ? forceBox(t('Replace the file that is there')) : null}`,
      submission: { isBusy: this.#submission.isBusy, problem: this.#submission.problemBeside(['reason']) },
      answer: t('Begin maintenance'),
      kind: 'primary',
      onAnswer: event => void this.#begin(event),
      onRefusal: () => this.#ask(false)
    })
  }

  #ask(isAsking: boolean): void {
    this.#isAsking = isAsking
    this.#submission.refuse(null)
  }

  async #begin(event: Event): Promise<void> {
    const { reason = '', force } = submitted(event)
    const change = { on: true, reason: reason.trim() || null, force: force !== undefined }
    if (!(await this.#submission.run(() => this.calls.maintain(this.projectId, change)))) return
    this.#ask(false)
    this.dispatchEvent(said('lockschange'))
  }
}
