import type { Said } from '../events.js'
import { css, SvcElement } from '../../dom/element.js'
import { html, icon, keyed, type Template } from '../../dom/html.js'
import { twoLines } from '../../words/errors.js'
import { t } from '../../words/t.js'

const shownMs = 4000
const lastWordMs = 500

/**
 * Shows the newest notice in a corner. A success disappears after a while; a failure stays until it is closed or the
 * page changes.
 */
export class SvcNotices extends SvcElement {
  static override sheet = css`
    svc-notices {
      position: fixed;
      /* Keeps away from the buttons of a page, which are at its top. */
      inset: auto 16px 16px auto;
      z-index: 10;
      display: grid;
      gap: 8px;
      width: max-content;
      max-width: min(400px, calc(100vw - 32px));
      pointer-events: none;

      > div {
        display: flex;
        align-items: flex-start;
        gap: 10px;
        padding: 8px 8px 8px 14px;
        border-radius: 8px;
        background: var(--raised);
        box-shadow: var(--float);
        animation: svc-notices-appear var(--appear);
      }

      > div > .icon { margin-top: 10px; color: var(--success); }
      > div.failed > .icon { color: var(--failure); }
      p { flex: 1; min-width: 0; padding: 7px 0; overflow-wrap: anywhere; }
      a { pointer-events: auto; }
      button { min-width: 36px; padding: 4px; pointer-events: auto; }

      @media (max-width: 719px) {
        /* Above the bar at the bottom. */
        inset: auto 8px 72px 8px;
        width: auto;
        max-width: none;
      }
    }

    @keyframes svc-notices-appear {
      from { opacity: 0; translate: 0 8px; }
    }
  `

  #notice: (Pick<Said<'notice'>, 'text' | 'kind' | 'address'> & { id: number; atMs: number }) | null = null
  #lastId = 0

  protected override connected(): void {
    this.setAttribute('role', 'status')
    this.setAttribute('aria-live', 'polite')
  }

  show({ text, kind, address }: Pick<Said<'notice'>, 'text' | 'kind' | 'address'>): void {
    const id = ++this.#lastId
    this.#notice = { id, text, kind, address, atMs: performance.now() }
    this.update()
    if (kind === 'failed') return
    setTimeout(() => {
      if (this.#notice?.id === id) this.clear()
    }, shownMs)
  }

  /** Called when the page changes: removes the notice, unless it was shown only just before. */
  turn(): void {
    if (this.#notice !== null && performance.now() - this.#notice.atMs > lastWordMs) this.clear()
  }

  clear(): void {
    this.#notice = null
    this.update()
  }

  protected override view(): Template {
    const notice = this.#notice
    return html`${
      notice === null
        ? []
        : [
            keyed(
              String(notice.id),
              html`
      <div class="${notice.kind}">
        ${icon(notice.kind === 'success' ? 'success' : 'warning')}
        <p>${notice.address === null ? twoLines(notice.text) : html`<a href="${notice.address}">${notice.text}</a>`}</p>
        <button type="button" class="quiet" aria-label="${t('Close notice')}" @click="${() => this.clear()}">
          ${icon('close')}
        </button>
      </div>`
            )
          ]
    }`
  }
}
