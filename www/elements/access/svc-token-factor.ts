import { said } from '../events.js'
import type { AccessToken } from '../../../lib/model/access.js'
import { SvcElement } from '../../dom/element.js'
import { html, type Template } from '../../dom/html.js'
import type { TokenCalls } from '../../server/token-calls.js'
import { t } from '../../words/t.js'
import { question } from '../base/question.js'
import { Submission } from '../base/submission.js'

/**
 * Asks before the second factor of another token is removed. Properties: `token`, `calls`. Events: `tokensaved`,
 * `tokencancel`.
 */
export class SvcTokenFactor extends SvcElement {
  token!: AccessToken
  calls!: Pick<TokenCalls, 'removeFactor'>
  readonly #submission = new Submission(() => this.update())

  protected override view(): Template {
    return question({
      asked: html`<p>${t('For a user who lost the authenticator and the recovery codes. Afterwards the token alone is enough to sign in, so make sure that the user asked for this.')}</p>`,
      submission: this.#submission,
      answer: t('Remove second factor'),
      onAnswer: event => void this.#remove(event),
      onRefusal: () => this.dispatchEvent(said('tokencancel'))
    })
  }

  async #remove(event: Event): Promise<void> {
    event.preventDefault()
    const { token } = this
    await this.#submission.run(async () => {
      await this.calls.removeFactor(token.id)
      this.dispatchEvent(said('tokensaved', { token: { ...token, secondFactor: false }, secret: null }))
    })
  }
}
