import type { Client } from '../../server/client.js'
import { said, css, SvcElement } from '../element.js'
import { authenticatorAddress } from '../../dom/address.js'
import { html, icon, type Template } from '../../dom/html.js'
import type { BegunFactor } from '../../server/requests.js'
import { createResource, loaded, type Resource } from '../../state/resource.js'
import { t } from '../../words/t.js'
import { codeField, errorLine, Submission, submitted, SvcDialog } from '../base/form.js'
import { SvcCopy } from '../base/facts.js'

type Step =
  | { kind: 'rest' }
  | { kind: 'enrol'; factor: BegunFactor }
  | { kind: 'codes'; codes: readonly string[] }
  | { kind: 'remove' }

/**
 * The second factor of the token that is signed in: added with an authenticator, removed with a code. Property: `client`.
 * Event: `factorchange`.
 */
export class SvcSecondFactor extends SvcElement {
  static override sheet = css`
    svc-second-factor {
      display: block;

      .rest { display: flex; flex-wrap: wrap; align-items: center; justify-content: space-between; gap: 8px 16px; }
      .on { display: flex; align-items: center; gap: 8px; font-weight: 500; }
      .on .icon { color: var(--success); }
      .secret { display: flex; flex-wrap: wrap; gap: 8px; align-items: center; padding: 12px; border-radius: var(--radius); background: var(--sunken); }
      .secret code { flex: 1 1 200px; min-width: 0; overflow-wrap: anywhere; user-select: all; }
      .codes { display: grid; margin-right: 8px; flex: 1 1 200px; grid-template-columns: repeat(auto-fill, minmax(176px, 1fr)); gap: 4px 16px; }
      .codes code { overflow-wrap: normal; white-space: nowrap; }
    }
  `

  client!: Client
  #isOn!: Resource<boolean>
  #step: Step = { kind: 'rest' }
  #focused: Step | null = this.#step
  readonly #submission = new Submission(this)

  protected override connected(): void {
    this.#step = { kind: 'rest' }
    this.#focused = this.#step
    this.#isOn = createResource({
      load: async signal => (await this.client.call('GET /api/tokens/self', { signal })).secondFactor,
      onChange: () => this.update(),
      signal: this.signal
    })
    void this.#isOn.load()
  }

  protected override view(): Template {
    const { kind } = this.#step
    if (kind === 'enrol') return this.#enrolment(this.#step.factor)
    if (kind === 'codes') return html`${this.#rest(true)}${this.#recovery(this.#step.codes)}`
    if (kind === 'remove') return this.#removal()
    return html`${loaded(this.#isOn, 'the second factor', isOn => this.#rest(isOn))}`
  }

  /** Moves the focus with each step, because the button that had it is gone. */
  protected override rendered(): void {
    if (this.#step === this.#focused) return
    this.#focused = this.#step
    this.querySelector<HTMLElement>('input, .codes, button')?.focus()
  }

  #rest(isOn: boolean): Template {
    return html`
      <div class="form">
        <div class="rest">
          ${
            isOn
              ? html`<span class="on">${icon('check')}${t('A sign-in needs a code of your authenticator.')}</span>`
              : html`<span>${t('A sign-in needs only the token.')}</span>`
          }
          ${
            isOn
              ? html`<button type="button" @click="${() => this.#go({ kind: 'remove' })}">${t('Remove…')}</button>`
              : html`
              <button type="button" disabled="${this.#submission.isBusy}" @click="${() => void this.#begin()}">
                ${t('Add second factor…')}
              </button>`
          }
        </div>
        ${errorLine(this.#submission.problem)}
      </div>`
  }

  #enrolment({ secret, link }: BegunFactor): Template {
    return html`
      <form class="form" @submit="${(event: Event) => void this.#confirm(event)}">
        <p>${t('Add this secret to an authenticator, then enter the code that it shows.')}</p>
        <div class="secret">
          <code translate="no">${secret.replace(/.{4}(?=.)/g, '$& ')}</code><svc-copy .text="${secret}"></svc-copy>
        </div>
        <p><a href="${authenticatorAddress(link)}">${t('Open the authenticator of this device')}</a></p>
        ${codeField({ form: 'factor', isNew: true, error: this.#submission.problemOf('code') })}
        <p class="muted small">
          ${t('From then on the token only opens this panel. The svc command and scripts need another token.')}
        </p>
        ${errorLine(this.#submission.problemBeside(['code']))}
        ${this.#actions(t('Confirm'), 'primary')}
      </form>`
  }

  /** Shows the codes in a dialog that only its button closes, because nobody can show them again. */
  #recovery(codes: readonly string[]): Template {
    const content = html`
      <div class="form">
        <p>${t('Each of these recovery codes works once in place of your authenticator. Store them now: nobody can show them again.')}</p>
        <div class="secret">
          <ul class="codes" tabindex="-1" aria-label="${t('Recovery codes')}" translate="no">
            ${codes.map(code => html`<li><code>${code}</code></li>`)}
          </ul>
          <svc-copy .text="${codes.join('\n')}"></svc-copy>
        </div>
        <div class="actions end">
          <button type="button" class="primary" @click="${() => this.#go({ kind: 'rest' })}">${t('I stored them')}</button>
        </div>
      </div>`
    return html`<svc-dialog persistent="" heading="${t('Recovery codes')}" .content="${content}"></svc-dialog>`
  }

  #removal(): Template {
    return html`
      <form class="form" @submit="${(event: Event) => void this.#remove(event)}">
        <p>${t('Without the second factor, the token alone is enough to sign in.')}</p>
        ${codeField({ form: 'factor', error: this.#submission.problemOf('code') })}
        ${errorLine(this.#submission.problemBeside(['code']))}
        ${this.#actions(t('Remove'), 'danger primary')}
      </form>`
  }

  #actions(answer: string, kind: string): Template {
    return html`
      <div class="actions end">
        <button type="button" @click="${() => this.#go({ kind: 'rest' })}">${t('Cancel')}</button>
        <button class="${kind}" disabled="${this.#submission.isBusy}">${answer}</button>
      </div>`
  }

  #go(step: Step): void {
    this.#step = step
    this.#submission.refuse(null)
  }

  async #begin(): Promise<void> {
    await this.#submission.run(async () => {
      this.#go({ kind: 'enrol', factor: await this.client.call('POST /api/auth/second-factor') })
    })
  }

  async #confirm(event: Event): Promise<void> {
    const { code = '' } = submitted(event)
    await this.#submission.run(async () => {
      const codes = (await this.client.call('POST /api/auth/second-factor/confirm', { body: { code: code.trim() } }))
        .recoveryCodes
      this.#set(true)
      this.#go({ kind: 'codes', codes })
    })
  }

  async #remove(event: Event): Promise<void> {
    const { code = '' } = submitted(event)
    await this.#submission.run(async () => {
      await this.client.call('DELETE /api/auth/second-factor', { body: { code: code.trim() } })
      this.#set(false)
      this.#go({ kind: 'rest' })
    })
  }

  #set(isOn: boolean): void {
    this.#isOn.set(isOn)
    this.dispatchEvent(said('factorchange'))
  }
}

/** The elements that a page registers for the second factor. */
export const elements = { 'svc-second-factor': SvcSecondFactor, 'svc-copy': SvcCopy, 'svc-dialog': SvcDialog }
