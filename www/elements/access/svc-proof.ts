import { said, SvcElement } from '../element.js'
import { html, type Template } from '../../dom/html.js'
import { type Client, Refused } from '../../server/client.js'
import { holderNow } from '../../state/session.js'
import { t } from '../../words/t.js'
import { codeField, errorLine, field, Submission, submitted, SvcDialog } from '../base/form.js'
import type { SvcApp } from '../base/svc-app.js'
import type { PageContext } from '../../pages/page.js'

/**
 * Asks for the token of the session again, and for a code if it has a second factor. Property: `client`. Events:
 * `proven`, `dialogclose`.
 */
export class SvcProof extends SvcElement {
  client!: Pick<Client, 'ask'>
  #needsCode = false
  readonly #submission = new Submission(this)

  protected override view(): Template {
    return html`<svc-dialog heading="${t('Enter your token again')}" .content="${this.#content()}"></svc-dialog>`
  }

  #content(): Template {
    const token = holderNow()?.token ?? null
    const { refusal } = this.#submission
    const code = refusal instanceof Refused ? refusal.code : null
    const isHidden = code === 'wrong_token' || code === 'code_required'
    return html`
      <form class="form" @submit="${(event: Event) => void this.#prove(event)}">
        <p>${t('You signed in a while ago. Show that it is still you, and the action continues.')}</p>
        <input type="text" name="username" value="${token?.name ?? 'admin'}" autocomplete="username" hidden="">
        ${field({
          form: 'proof',
          name: 'token',
          label: token === null ? t('Admin token') : t('Token “{name}”', { name: token.name }),
          type: 'password',
          autocomplete: 'current-password',
          error: code === 'wrong_token' ? t('This is not the token that you signed in with.') : undefined,
          isRequired: true,
          hasFocus: true
        })}
        ${
          this.#needsCode
            ? codeField({
                form: 'proof',
                error: code === 'wrong_code' ? this.#submission.problemOf('code') : undefined
              })
            : null
        }
        ${errorLine(isHidden ? null : this.#submission.problemBeside(['code']))}
        <div class="actions end">
          <button type="button" @click="${() => this.dispatchEvent(said('dialogclose'))}">${t('Cancel')}</button>
          <button class="primary" disabled="${this.#submission.isBusy}">${t('Continue')}</button>
        </div>
      </form>`
  }

  async #prove(event: Event): Promise<void> {
    const { token = '', code } = submitted(event)
    const body = { token: token.trim(), ...(code === undefined ? {} : { code: code.trim() }) }
    if (await this.#submission.run(() => this.client.ask('POST', 'api/auth/prove', { body }))) {
      this.dispatchEvent(said('proven'))
      return
    }
    const { refusal } = this.#submission
    if (!(refusal instanceof Refused)) return
    if (refusal.code === 'code_required') this.#needsCode = true
    this.update()
    // The dialog renders its content after this element.
    setTimeout(() => {
      const field = this.querySelector<HTMLInputElement>(`[name=${refusal.field === 'code' ? 'code' : 'token'}]`)
      field?.focus()
      field?.select()
    })
  }
}

export const elements = { 'svc-proof': SvcProof, 'svc-dialog': SvcDialog }

/**
 * Asks the user for the token of the session again. Resolves to true after the server has accepted it, and to false if
 * the user cancels or the session ends.
 */
export function askProof({ app, context }: { app: SvcApp; context: PageContext }): Promise<boolean> {
  context.define(elements)
  const { client, session } = context
  const dialog = Object.assign(document.createElement('svc-proof') as SvcProof, { client })
  const before = document.activeElement
  return new Promise(resolve => {
    const life = new AbortController()
    const finish = (isProven: boolean): void => {
      life.abort()
      dialog.remove()
      // A dialog that is removed does not give the focus back.
      if (before instanceof HTMLElement && before.isConnected) before.focus()
      resolve(isProven)
    }
    const { signal } = life
    dialog.addEventListener('proven', () => finish(true), { signal })
    dialog.addEventListener('dialogclose', () => finish(false), { signal })
    session.addEventListener('session', () => finish(false), { signal })
    app.append(dialog)
  })
}
