import { css, SvcElement } from '../element.js'
import { html, icon, type IconName, type Template } from '../../dom/html.js'

/** Minimum distance of a panel from the edge of the window. */
const marginPx = 8

/**
 * A button that opens a panel beside it. Attributes: `label`; `picture`, an icon before the label; `active`, if its
 * content has an effect now. Property: `content`, the content of the panel. A control with `autofocus` has the focus
 * first. Escape, a click elsewhere or a moved focus closes the panel.
 */
export class SvcMenu extends SvcElement {
  static readonly observedAttributes = ['label', 'picture', 'active']

  static override sheet = css`
    svc-menu {
      position: relative;
      display: inline-block;

      > button { width: 100%; justify-content: space-between; font-weight: 400; }
      > button > span { flex: 1; text-align: left; }
      > button > .icon:last-child { width: 12px; height: 12px; color: var(--muted); }
      &[active] > button { border-color: var(--accent); background: var(--accent-quiet); }
      > .panel {
        position: absolute;
        z-index: 4;
        top: calc(100% + 4px);
        left: 0;
        min-width: 200px;
        width: max-content;
        max-width: min(340px, calc(100vw - 16px));
        max-height: min(420px, 70dvh);
        overflow-y: auto;
        padding: 8px;
        border-radius: 8px;
        background: var(--raised);
        box-shadow: var(--float);
        overscroll-behavior: contain;
        animation: svc-menu-appear var(--appear);
      }
    }

    @keyframes svc-menu-appear {
      from { opacity: 0; }
    }
  `

  content: Template | null = null
  #isOpen = false
  #wasOpen = false

  close(): void {
    this.#setOpen(false)
  }

  protected override connected(): void {
    this.listen(document, 'pointerdown', event => {
      if (!this.contains(event.target as Node)) this.#setOpen(false)
    })
    this.listen(this, 'focusout', event => {
      const to = (event as FocusEvent).relatedTarget
      // Null stands for the window itself or for something that cannot have the focus.
      if (to instanceof Node && !this.contains(to)) this.#setOpen(false)
    })
    this.listen(this, 'keydown', event => {
      if ((event as KeyboardEvent).key !== 'Escape' || !this.#isOpen) return
      event.preventDefault()
      event.stopPropagation()
      this.#setOpen(false)
      this.querySelector('button')?.focus()
    })
  }

  protected override view(): Template {
    const picture = this.getAttribute('picture')
    return html`
      <button type="button" aria-expanded="${this.#isOpen ? 'true' : 'false'}"
        @click="${() => this.#setOpen(!this.#isOpen)}">
        ${picture === null ? null : icon(picture as IconName)}<span>${this.getAttribute('label')}</span>${icon('open')}
      </button>
      ${this.#isOpen ? html`<div class="panel">${this.content}</div>` : null}`
  }

  protected override rendered(): void {
    const panel = this.querySelector<HTMLElement>('.panel')
    if (panel !== null && !this.#wasOpen) {
      const over = panel.getBoundingClientRect().right - (document.documentElement.clientWidth - marginPx)
      if (over > 0) panel.style.left = `${-over}px`
      panel.querySelector<HTMLElement>('[autofocus]')?.focus()
    }
    this.#wasOpen = panel !== null
  }

  #setOpen(isOpen: boolean): void {
    if (isOpen === this.#isOpen) return
    this.#isOpen = isOpen
    this.update()
  }
}
