import type { Client } from '../../server/client.js'
import { notice, css, SvcElement } from '../element.js'
import { html, type Template } from '../../dom/html.js'
import { Refused } from '../../server/client.js'
import { t } from '../../words/t.js'
import { errorLine, field, Submission, submitted } from '../base/form.js'

/* Rates a new admin token by the policy of the server (§5.6, §8). Pure. */

const minLength = 8
const strongLength = 24
const strongCharacters = 8

/** `refused`: the server would reject it. `words` is English and passed to t() with `values`. */
export interface Strength {
  level: 'refused' | 'weak' | 'strong'
  words: string
  values?: Record<string, number>
}

/** Returns the rating of a token, or null for an empty text. */
export function strengthOf(token: string): Strength | null {
  if (token === '') return null
  if (!/^[\x21-\x7e]+$/.test(token)) return { level: 'refused', words: 'Only visible ASCII characters, without spaces' }
  const missing = minLength - token.length
  if (missing > 0)
    return {
      level: 'refused',
      words: missing === 1 ? 'Too short: 1 more character is needed' : 'Too short: {count} more characters are needed',
      values: { count: missing }
    }
  if (token.length < strongLength) {
    const count = strongLength - token.length
    const words =
      count === 1 ? 'Weak: 1 more character would make it strong' : 'Weak: {count} more characters would make it strong'
    return { level: 'weak', words, values: { count } }
  }
  if (!/[a-z]/i.test(token)) return { level: 'weak', words: 'Weak: no letters' }
  if (!/[0-9]/.test(token)) return { level: 'weak', words: 'Weak: no digits' }
  if (new Set(token).size < strongCharacters) return { level: 'weak', words: 'Weak: too few different characters' }
  return { level: 'strong', words: 'Strong' }
}

/** Returns a strong token of 32 random bytes. */
export function strongToken(randomBytes: (bytes: Uint8Array<ArrayBuffer>) => Uint8Array<ArrayBuffer>): string {
  for (;;) {
    const text = btoa(String.fromCharCode(...randomBytes(new Uint8Array(32))))
    const token = text.replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')
    if (strengthOf(token)?.level === 'strong') return token
  }
}

/** Changes the admin token, and rates the new one while it is typed. Property: `client`. Event: `notice`. */
export class SvcAdminToken extends SvcElement {
  static override sheet = css`
    svc-admin-token {
      display: grid;
      gap: 12px;

      .field { max-width: 460px; }
      .actions { align-items: center; }
      .strength { font-size: var(--size-13); font-weight: 500; }
      .strength[data-level='refused'] { color: var(--failure); }
      .strength[data-level='weak'] { color: var(--warning); }
      .strength[data-level='strong'] { color: var(--success); }
    }
  `

  client!: Client
  #oldToken = ''
  #newToken = ''
  #isShown = false
  readonly #submission = new Submission(this)

  protected override view(): Template {
    const strength = strengthOf(this.#newToken)
    const { refusal } = this.#submission
    const isWrong = refusal instanceof Refused && refusal.code === 'wrong_token'
    return html`
      <h2>${t('Admin token')}</h2>
      <form class="card padded form" @submit="${(event: Event) => void this.#change(event)}" @input="${(event: Event) => this.#typed(event)}">
        <p class="muted">${t('Grants full access. Changing it ends all other sessions.')}</p>
        <input type="text" name="username" value="admin" autocomplete="username" hidden="">
        ${field({
          form: 'token',
          name: 'oldToken',
          label: t('Current token'),
          type: 'password',
          isRequired: true,
          isMono: true,
          autocomplete: 'current-password',
          value: this.#oldToken,
          error: isWrong ? t('Wrong admin token.') : this.#submission.problemOf('oldToken')
        })}
        ${field({
          form: 'token',
          name: 'newToken',
          label: t('New token'),
          type: this.#isShown ? 'text' : 'password',
          isRequired: true,
          isMono: true,
          autocomplete: 'new-password',
          value: this.#newToken,
          error: this.#submission.problemOf('newToken'),
          hint: t('Store it like a password. It is not shown again.')
        })}
        <div class="actions">
          <button type="button" @click="${() => this.#generate()}">${t('Generate')}</button>
          <button type="button" aria-pressed="${this.#isShown ? 'true' : 'false'}" @click="${() => this.#toggle()}">
            ${this.#isShown ? t('Hide') : t('Show')}
          </button>
          ${this.#newToken === '' ? null : html`<svc-copy .text="${this.#newToken}"></svc-copy>`}
          <span class="strength" role="status" data-level="${strength?.level}">${strength && t(strength.words, strength.values)}</span>
        </div>
        ${errorLine(isWrong ? null : this.#submission.problemBeside(['oldToken', 'newToken']))}
        <div class="actions">
          <button class="primary" disabled="${this.#submission.isBusy || strength === null || strength.level === 'refused' || this.#oldToken === ''}">
            ${t('Change token')}
          </button>
        </div>
      </form>`
  }

  #typed(event: Event): void {
    const { name, value } = event.target as HTMLInputElement
    if (name === 'oldToken') this.#oldToken = value
    if (name === 'newToken') this.#newToken = value
    this.update()
  }

  #generate(): void {
    this.#newToken = strongToken(bytes => crypto.getRandomValues(bytes))
    this.#isShown = true
    this.update()
  }

  #toggle(): void {
    this.#isShown = !this.#isShown
    this.update()
  }

  async #change(event: Event): Promise<void> {
    const { oldToken = '', newToken = '' } = submitted(event)
    await this.#submission.run(async () => {
      await this.client.call('POST /api/settings/token', { body: { oldToken, newToken } })
      this.#oldToken = ''
      this.#newToken = ''
      this.#isShown = false
      this.dispatchEvent(notice(t('Admin token changed. You are still signed in here')))
    })
  }
}
