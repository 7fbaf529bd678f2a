import type { SignatureDemand } from '../../../lib/model/access.js'
import { html, icon, type Template } from '../../dom/html.js'
import {
  type BrowserKey,
  findBrowserKey,
  forgetBrowserKey,
  makeBrowserKey,
  type NoSigning,
  whyNoSigning
} from '../../browser-key.js'
import { errorWords, numberWords, t } from '../../words/t.js'
import { css, said, SvcElement } from '../element.js'
import { errorLine } from '../base/form.js'

/**
 * Signs what is deployed from the panel with the key of this browser, or says why that is not possible. Property: `demand`,
 * what is asked of releases. Event: `signerchange`, with the key that is to sign, or null.
 */
export class SvcSign extends SvcElement {
  static override sheet = css`
    svc-sign {
      display: grid;
      grid-template-columns: minmax(0, 1fr);
      gap: 8px;
      padding: 12px;
      border: 1px solid var(--line);
      border-radius: var(--radius);
      font-size: var(--size-13);
      overflow-wrap: anywhere;

      details[open] { display: grid; gap: 8px; }
      .key { display: flex; flex-wrap: wrap; align-items: start; gap: 8px; }
      .key pre { flex: 1 1 260px; min-width: 0; margin: 0; white-space: pre-wrap; overflow-wrap: anywhere; font-size: var(--size-12); }
      .own { display: flex; flex-wrap: wrap; gap: 8px; }
      .own button { min-height: 28px; padding: 2px 8px; font-size: var(--size-13); }
      summary { width: fit-content; color: var(--muted); cursor: pointer; }
    }
  `

  demand!: SignatureDemand
  #why: NoSigning | 'asking' = 'asking'
  #key: BrowserKey | null = null
  #isWanted = true
  #problem: string | null = null

  protected override connected(): void {
    void this.#work(async () => {
      this.#why = await whyNoSigning()
      if (this.#why === null) this.#key = await findBrowserKey()
    })
  }

  protected override view(): Template {
    const cannot = this.#cannot()
    return html`
      <b>${this.demand.require === 'refuse' ? t('This release must be signed.') : t('This release should be signed.')}</b>
      ${cannot === null ? this.#ownKey() : html`<p>${cannot}</p>${this.#command()}`}
      ${errorLine(this.#problem)}`
  }

  /** Returns why the panel cannot sign it, and what else to do. */
  #cannot(): string | null {
    const { threshold, sbom } = this.demand
    const other = t('Push it from a terminal instead:')
    if (sbom === 'require') return `${t('It needs a list of components (SBOM), which the panel cannot send.')} ${other}`
    if (threshold > 1) {
      const count = numberWords(threshold)
      return `${t('It needs the signatures of {count} keys, and this browser has one.', { count })} ${other}`
    }
    if (this.#why === 'insecure') return `${t('A browser signs only on pages with HTTPS.')} ${other}`
    if (this.#why === 'unsupported') return `${t('This browser has no Ed25519 keys. A newer one has.')} ${other}`
    return null
  }

  #command(): Template {
    const { sbom, threshold } = this.demand
    const keys = Array.from({ length: threshold }, () => ' --sign-key <file>').join('')
    return html`<code translate="no">svc push${keys}${sbom === 'require' ? ' --sbom sbom.json' : ''}</code>`
  }

  #ownKey(): Template | null {
    if (this.#why === 'asking')
      return html`<p class="muted" role="status">${t('Looking for the key of this browser…')}</p>`
    if (this.#key === null) {
      return html`
        <p>${t('This browser can sign with a key of its own. It never leaves this browser, and nobody can read it.')}</p>
        <div class="own"><button type="button" @click="${() => void this.#make()}">${icon('plus')}${t('Make a key')}</button></div>`
    }
    const { fingerprint, publicText } = this.#key
    const change = (event: Event): void => {
      this.#isWanted = (event.currentTarget as HTMLInputElement).checked
      this.#tell()
    }
    return html`
      <label class="check"><input type="checkbox" .checked="${this.#isWanted}" @change="${change}"><span>${t('Sign it with the key of this browser')}</span></label>
      <code translate="no">${fingerprint}</code>
      <details>
        <summary>${t('Let the server trust this key')}</summary>
        <p>${t('An admin adds its public half under Settings → Access, or with svc keys trust. If the server was started with --require-signatures, its second line belongs into keys/allowed_signers, after a name.')}</p>
        <div class="key"><pre translate="no">${publicText}</pre><svc-copy .text="${publicText}"></svc-copy></div>
        <div class="own"><button type="button" @click="${() => void this.#forget()}">${t('Forget this key')}</button></div>
      </details>`
  }

  #make(): Promise<void> {
    return this.#work(async () => {
      this.#key = await makeBrowserKey()
    })
  }

  #forget(): Promise<void> {
    return this.#work(async () => {
      await forgetBrowserKey()
      this.#key = null
    })
  }

  async #work(work: () => Promise<void>): Promise<void> {
    this.#problem = null
    try {
      await work()
    } catch (error) {
      this.#problem = errorWords(error)
    }
    this.#tell()
  }

  #tell(): void {
    const isPossible = this.#cannot() === null && this.#isWanted
    this.dispatchEvent(said('signerchange', { key: isPossible ? this.#key : null }))
    this.update()
  }
}
