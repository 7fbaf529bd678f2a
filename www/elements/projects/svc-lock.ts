import { said } from '../events.js'
import { defaultLockSeconds, maxLockReasonLength, maxLockSeconds } from '../../shared/api.js'
import type { LockCalls } from '../../server/lock-calls.js'
import { css, SvcElement } from '../../dom/element.js'
import { html, icon, type Template } from '../../dom/html.js'
import { t } from '../../words/t.js'
import { field, submitted } from '../base/field.js'
import { question } from '../base/question.js'
import { Submission } from '../base/submission.js'

const hourSeconds = 60 * 60
/** The offered times. `words` is English and passed to t(). */
const times: ReadonlyArray<{ seconds: number; words: string }> = [
  { seconds: hourSeconds, words: '1 hour' },
  { seconds: 4 * hourSeconds, words: '4 hours' },
  { seconds: defaultLockSeconds, words: '1 day' },
  { seconds: 7 * 24 * hourSeconds, words: '1 week' },
  { seconds: maxLockSeconds, words: '30 days' }
]

/** A button that locks a project after asking for a reason. Properties: `projectId`, `calls`. Event: `lockschange`. */
export class SvcLock extends SvcElement {
  static override sheet = css`
    svc-lock { display: contents; }
  `

  projectId!: string
  calls!: LockCalls
  #isAsking = false
  readonly #submission = new Submission(() => this.update())

  protected override view(): Template {
    return html`
      <button type="button" @click="${() => this.#ask(true)}">${icon('lock')}${t('Lock…')}</button>
      <svc-dialog heading="${t('Lock this project?')}" .content="${this.#isAsking ? this.#question() : null}"
        @dialogclose="${() => this.#ask(false)}"></svc-dialog>`
  }

  #question(): Template {
    return question({
      asked: html`
        <p>${t('Pushes and rollbacks are refused until the lock expires or is removed. A running deployment continues.')}</p>
        ${field({
          form: 'lock',
          name: 'reason',
          label: t('Reason'),
          isRequired: true,
          hasFocus: true,
          maxLength: maxLockReasonLength,
          error: this.#submission.problemOf('reason'),
          hint: t('Everyone whose deployment is refused reads it.')
        })}
        <div class="field">
          <label for="lock-seconds">${t('Expires after')}</label>
          <select id="lock-seconds" name="seconds">
            ${times.map(
              ({ seconds, words }) => html`
              <option value="${seconds}" .selected="${seconds === defaultLockSeconds}">${t(words)}</option>`
            )}
          </select>
        </div>`,
      submission: { isBusy: this.#submission.isBusy, problem: this.#submission.problemBeside(['reason']) },
      answer: t('Lock'),
      kind: 'primary',
      onAnswer: event => void this.#lock(event),
      onRefusal: () => this.#ask(false)
    })
  }

  #ask(isAsking: boolean): void {
    this.#isAsking = isAsking
    this.#submission.refuse(null)
  }

  async #lock(event: Event): Promise<void> {
    const { reason = '', seconds } = submitted(event)
    const isDone = await this.#submission.run(() =>
      this.calls.lock(this.projectId, { reason, seconds: Number(seconds) })
    )
    if (!isDone) return
    this.#ask(false)
    this.dispatchEvent(said('lockschange'))
  }
}
