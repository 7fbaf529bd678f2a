import { said } from '../events.js'
import type { AccessToken } from '../../../lib/model/access.js'
import { SvcElement } from '../../dom/element.js'
import { html, type Template } from '../../dom/html.js'
import { usualMaxDays, type TokenCalls } from '../../server/token-calls.js'
import { t } from '../../words/t.js'
import { errorLine, field, submitted } from '../base/field.js'
import { Submission } from '../base/submission.js'
import { afterDays, daysProblem } from './token-facts.js'
import { serverNow } from '../../state/server-clock.js'

const hourSeconds = 60 * 60
/** The offered overlaps. `words` is English and passed to t(). */
const overlaps: ReadonlyArray<{ seconds: number; words: string }> = [
  { seconds: 0, words: 'At once' },
  { seconds: hourSeconds, words: 'After 1 hour' },
  { seconds: 4 * hourSeconds, words: 'After 4 hours' },
  { seconds: 24 * hourSeconds, words: 'After 1 day' }
]
const usualOverlapSeconds = hourSeconds

/**
 * Asks how to replace the secret of a token. Properties: `token`, `calls`; `maxDays`, the longest lifetime. Events:
 * `tokensaved` with the new secret, `tokencancel`.
 */
export class SvcTokenRotate extends SvcElement {
  token!: AccessToken
  calls!: Pick<TokenCalls, 'rotate'>
  maxDays = usualMaxDays
  #hasOpened = false
  readonly #submission = new Submission(() => this.update())

  /** The dialog opens before its form has controls. */
  protected override rendered(): void {
    if (this.#hasOpened) return
    this.#hasOpened = true
    this.querySelector<HTMLElement>('[autofocus]')?.focus()
  }

  protected override view(): Template {
    return html`
      <form class="form" @submit="${(event: Event) => void this.#rotate(event)}">
        <p>${t('Role, projects and name stay. The sessions of this token in browsers end.')}</p>
        <div class="field">
          <label for="rotate-overlap">${t('The present secret becomes invalid')}</label>
          <select id="rotate-overlap" name="overlap" autofocus="">
            ${overlaps.map(
              ({ seconds, words }) => html`
              <option value="${seconds}" .selected="${seconds === usualOverlapSeconds}">${t(words)}</option>`
            )}
          </select>
        </div>
        ${field({
          form: 'rotate',
          name: 'days',
          label: t('Days until the token expires (optional)'),
          type: 'number',
          hint: t('Empty: as long as before.'),
          error: this.#submission.problemOf('expiresAt')
        })}
        ${errorLine(this.#submission.problemBeside(['expiresAt']))}
        <div class="actions end">
          <button type="button" @click="${() => this.dispatchEvent(said('tokencancel'))}">${t('Cancel')}</button>
          <button class="primary" disabled="${this.#submission.isBusy}">${t('Create new secret')}</button>
        </div>
      </form>`
  }

  async #rotate(event: Event): Promise<void> {
    const { overlap = '0', days = '' } = submitted(event)
    const problem = days === '' ? null : daysProblem(days, this.maxDays)
    if (problem !== null) return this.#submission.refuse(problem)
    await this.#submission.run(async () => {
      const { record, token } = await this.calls.rotate(this.token.id, {
        overlapSeconds: Number(overlap),
        ...(days !== '' && { expiresAt: afterDays(Number(days), serverNow()) })
      })
      this.dispatchEvent(said('tokensaved', { token: record, secret: token }))
    })
  }
}
