import { said } from '../events.js'
import { css, SvcElement } from '../../dom/element.js'
import { html, type Template } from '../../dom/html.js'

/**
 * A modal dialog, open while it has content. Attributes: `heading`; `persistent`: only its content closes it. Property:
 * `content`, a template or null. Event: `dialogclose`. Keys: Escape closes it. A control with `autofocus` has the focus
 * first.
 */
export class SvcDialog extends SvcElement {
  static readonly observedAttributes = ['heading', 'persistent']

  static override sheet = css`
    svc-dialog dialog {
      width: min(520px, calc(100vw - 32px));
      max-height: calc(100dvh - 32px);
      padding: 24px;
      border: 0;
      border-radius: 10px;
      background: var(--raised);
      color: var(--text);
      box-shadow: var(--float);
      overscroll-behavior: contain;

      &::backdrop { background: rgb(0 0 0 / 45%); }
      &[open] { animation: svc-dialog-appear var(--appear); }
      > h2 { margin-bottom: 16px; font-size: var(--size-20); letter-spacing: -0.01em; overflow-wrap: anywhere; }
    }

    @keyframes svc-dialog-appear {
      from { opacity: 0; translate: 0 6px; }
    }
  `

  static #count = 0
  readonly #headingId = `dialog-heading-${++SvcDialog.#count}`
  content: Template | null = null

  protected override view(): Template {
    const isPersistent = this.hasAttribute('persistent')
    const close = (event: Event): void => {
      event.preventDefault()
      if (!isPersistent) this.dispatchEvent(said('dialogclose'))
    }
    // A second Escape would close the dialog without the event `cancel`.
    const keep = (event: KeyboardEvent): void => {
      if (isPersistent && event.key === 'Escape') event.preventDefault()
    }
    return html`
      <dialog aria-labelledby="${this.#headingId}" @cancel="${close}" @keydown="${keep}">
        <h2 id="${this.#headingId}">${this.getAttribute('heading')}</h2>
        ${this.content}
      </dialog>`
  }

  protected override rendered(): void {
    const dialog = this.querySelector('dialog') as HTMLDialogElement
    if (this.content === null) dialog.close()
    else if (!dialog.open) dialog.showModal()
    // The control that had the focus was replaced by other content.
    else if (document.activeElement === document.body) dialog.querySelector<HTMLElement>('[autofocus]')?.focus()
  }
}
