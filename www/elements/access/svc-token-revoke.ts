import { said } from '../events.js'
import type { AccessToken } from '../../../lib/model/access.js'
import { SvcElement } from '../../dom/element.js'
import { html, type Template } from '../../dom/html.js'
import type { TokenCalls } from '../../server/token-calls.js'
import { t } from '../../words/t.js'
import { question } from '../base/question.js'
import { Submission } from '../base/submission.js'
import { serverNow } from '../../state/server-clock.js'

/** Asks before a token is revoked. Properties: `token`, `calls`. Events: `tokensaved`, `tokencancel`. */
export class SvcTokenRevoke extends SvcElement {
  token!: AccessToken
  calls!: Pick<TokenCalls, 'revoke'>
  readonly #submission = new Submission(() => this.update())

  protected override view(): Template {
    const { lastUsedAt } = this.token
    return question({
      asked: html`
        <p>${t('The token becomes invalid at once, and its sessions in browsers end. This cannot be undone.')}</p>
        <p class="muted">${lastUsedAt === null ? t('Never used') : html`${t('Last used')} <svc-time at="${lastUsedAt}"></svc-time>`}</p>`,
      submission: this.#submission,
      answer: t('Revoke'),
      onAnswer: event => void this.#revoke(event),
      onRefusal: () => this.dispatchEvent(said('tokencancel'))
    })
  }

  async #revoke(event: Event): Promise<void> {
    event.preventDefault()
    const { token } = this
    await this.#submission.run(async () => {
      await this.calls.revoke(token.id)
      this.dispatchEvent(
        said('tokensaved', { token: { ...token, revokedAt: new Date(serverNow()).toISOString() }, secret: null })
      )
    })
  }
}
