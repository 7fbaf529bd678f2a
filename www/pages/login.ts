import type { BegunSession } from '../state/session.js'
import { Refused } from '../server/client.js'
import { css } from '../elements/element.js'
import { html, type Template } from '../dom/html.js'
import { codeField, errorLine, field, submitted } from '../elements/base/form.js'
import { countWords, t, errorWords } from '../words/t.js'
import { Page } from './page.js'

const logo = new URL('../icons/svc.svg', import.meta.url).pathname

/** The login page: the token, then the code of its second factor if it has one. The query `to` is the next page; `reason=expired` explains why the user must sign in again. */
export class LoginPage extends Page {
  static override sheet = css`
    svc-page-login {
      display: grid;
      place-content: center;
      grid-template-columns: minmax(0, 400px);
      min-height: 100dvh;
      padding: 24px 16px;

      .card { display: grid; gap: 20px; padding: 32px; }
      .brand { display: flex; align-items: center; gap: 12px; }
      h1 { font-size: var(--size-20); }
      button { width: 100%; }
      .help { color: var(--muted); font-size: var(--size-13); }
      .help code { color: var(--text); }
      @media (max-width: 719px) { .card { padding: 24px; } }
    }
  `

  #problem: string | null = null
  #lockedUntilMs = 0
  #isAsking = false
  /** The token whose second factor is asked for; null: the token is asked for. */
  #given: { token: string; remember: boolean } | null = null

  protected override connected(): void {
    this.entitle(t('Sign in'), [])
    this.every(1000, () => {
      if (this.#lockedUntilMs !== 0) this.update()
    })
  }

  protected override view(): Template {
    const lockedSeconds = Math.max(0, Math.ceil((this.#lockedUntilMs - Date.now()) / 1000))
    if (lockedSeconds === 0) this.#lockedUntilMs = 0
    const isExpired = this.place.query.get('reason') === 'expired'
    const problem = this.#problem
    return html`
      <form class="card" @submit="${(event: Event) => void this.#signIn(event)}">
        <div class="brand"><img src="${logo}" width="32" height="32" alt=""><h1>${t('Sign in to svc')}</h1></div>
        ${
          isExpired && problem === null
            ? html`<p role="status">${t('Your session has ended. Sign in to continue.')}</p>`
            : null
        }
        ${this.#given === null ? this.#tokenFields() : codeField({ form: 'login' })}
        ${errorLine(problem)}
        ${lockedSeconds > 0 ? html`<p class="muted small">${lockedWords(lockedSeconds)}</p>` : null}
        ${this.#given === null ? rememberBox() : null}
        <button class="primary" disabled="${this.#isAsking || lockedSeconds > 0}">
          ${this.#isAsking ? t('Signing in…') : t('Sign in')}
        </button>
        ${
          this.#given === null
            ? helpLine()
            : html`<button type="button" @click="${() => this.#back()}">${t('Use another token')}</button>`
        }
      </form>`
  }

  /** The field of the other step is gone. */
  protected override rendered(): void {
    if (document.activeElement === document.body) this.#field()?.focus()
  }

  #field(): HTMLInputElement | null {
    return this.querySelector<HTMLInputElement>('[name=token], [name=code]')
  }

  #tokenFields(): Template {
    return html`
      <input type="text" name="username" value="admin" autocomplete="username" hidden="">
      ${field({
        form: 'login',
        name: 'token',
        label: t('Token'),
        type: 'password',
        autocomplete: 'current-password',
        isRequired: true,
        hasFocus: true
      })}`
  }

  #back(): void {
    this.#given = null
    this.#problem = null
    this.update()
  }

  async #signIn(event: Event): Promise<void> {
    const { token = '', remember, code } = submitted(event)
    const given = this.#given ?? { token: token.trim(), remember: remember !== undefined }
    this.#isAsking = true
    this.#problem = null
    this.update()
    try {
      const fields = code === undefined ? given : { ...given, code: code.trim() }
      const { client, session } = this.context
      const begun = await client.call('POST /api/auth/login', { body: { ...fields, session: true } })
      session.begin(begun.session as BegunSession)
    } catch (error) {
      this.#refuse(error, given)
    }
    this.#isAsking = false
    this.update()
  }

  /** Asks for the code if the token needs one, and shows any other refusal. */
  #refuse(error: unknown, given: { token: string; remember: boolean }): void {
    if (error instanceof Refused && error.code === 'code_required') {
      this.#given = given
      return
    }
    this.#problem = errorWords(error)
    if (error instanceof Refused && error.retryAfterSeconds !== undefined) {
      this.#lockedUntilMs = Date.now() + error.retryAfterSeconds * 1000
    }
    this.#field()?.select()
  }
}

function rememberBox(): Template {
  return html`
    <label class="check"><input type="checkbox" name="remember"><span>${t('Remember me on this device')}</span></label>`
}

function helpLine(): Template {
  return html`
    <p class="help">
      ${t('Use the admin token or a token of your own. The server prints the admin token when it starts. If you lost it, create a new one with this command on the server:')} <code>svc admin reset-password</code>
    </p>`
}

function lockedWords(seconds: number): string {
  const wait = seconds < 90 ? countWords(seconds, 'second') : countWords(Math.ceil(seconds / 60), 'minute')
  return t('You can try again in {wait}.', { wait })
}

export const elements = { 'svc-page-login': LoginPage }
