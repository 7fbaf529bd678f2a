import { css, SvcElement } from '../../dom/element.js'
import { html, icon, type Template } from '../../dom/html.js'
import { t } from '../../words/t.js'

const thanksMs = 1600

/** A button that copies a text. Property: `text`. Attribute: `label`, default `Copy`. */
export class SvcCopy extends SvcElement {
  static readonly observedAttributes = ['label']

  static override sheet = css`
    svc-copy {
      display: inline-flex;
      flex: none;

      button { min-width: 88px; }
    }
  `

  text = ''
  #outcome: 'none' | 'copied' | 'failed' = 'none'

  protected override view(): Template {
    const label = this.getAttribute('label') ?? t('Copy')
    const word = { none: label, copied: t('Copied'), failed: t('Copy failed') }[this.#outcome]
    return html`
      <button type="button" @click="${() => void this.#copy()}">
        ${icon(this.#outcome === 'copied' ? 'check' : 'copy')}<span aria-live="polite">${word}</span>
      </button>`
  }

  async #copy(): Promise<void> {
    this.#outcome = (await copyText(this.text)) ? 'copied' : 'failed'
    this.update()
    setTimeout(() => {
      this.#outcome = 'none'
      this.update()
    }, thanksMs)
  }
}

/** Copies the text to the clipboard. Returns whether this succeeded. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text)
    return true
  } catch {
    return copyBySelection(text)
  }
}

/** Plain HTTP on a network has no `navigator.clipboard`; the old command still works there. */
function copyBySelection(text: string): boolean {
  const area = document.createElement('textarea')
  area.value = text
  area.className = 'unseen'
  area.setAttribute('aria-hidden', 'true')
  const focused = document.activeElement
  // The field must be inside an open dialog: elements outside of it cannot have the focus.
  const place = focused?.closest('dialog') ?? document.body
  place.append(area)
  area.select()
  const isCopied = document.execCommand('copy')
  area.remove()
  if (focused instanceof HTMLElement) focused.focus()
  return isCopied
}
