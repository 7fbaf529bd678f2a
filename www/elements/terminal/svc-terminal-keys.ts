import { css, SvcElement } from '../../dom/element.js'
import { html, type Template } from '../../dom/html.js'
import type { KeyPress } from '../../terminal/keys.js'
import { t } from '../../words/t.js'
import type { SvcTerminal } from './svc-terminal.js'

/** The label of a button, its name if the label is not a word, and the key. */
const keys: ReadonlyArray<{ face: string; name?: () => string; press: KeyPress }> = [
  { face: 'Esc', press: { key: 'Escape' } },
  { face: 'Tab', press: { key: 'Tab' } },
  { face: 'Ctrl C', press: { key: 'c', isControl: true } },
  { face: 'Ctrl D', press: { key: 'd', isControl: true } },
  { face: 'Ctrl R', press: { key: 'r', isControl: true } },
  { face: '↑', name: () => t('Up'), press: { key: 'ArrowUp' } },
  { face: '↓', name: () => t('Down'), press: { key: 'ArrowDown' } },
  { face: '←', name: () => t('Left'), press: { key: 'ArrowLeft' } },
  { face: '→', name: () => t('Right'), press: { key: 'ArrowRight' } }
]

/**
 * Keys that on-screen keyboards do not have. Visible only on touch devices. Property: `terminal`, which receives the
 * keys.
 */
export class SvcTerminalKeys extends SvcElement {
  static override sheet = css`
    svc-terminal-keys {
      display: none;
      gap: 4px;
      padding: 4px;
      border-top: 1px solid var(--line);
      background: var(--raised);
      overflow-x: auto;
      scrollbar-width: none;

      @media (pointer: coarse) { display: flex; }
      button { flex: 1 0 auto; min-width: 40px; min-height: 40px; padding: 0 8px; font-size: var(--size-13); }
    }
  `

  terminal: SvcTerminal | undefined

  protected override connected(): void {
    this.setAttribute('role', 'toolbar')
    this.setAttribute('aria-label', t('Keys missing on a phone'))
    // The on-screen keyboard stays open, because the terminal keeps the focus.
    this.listen(this, 'mousedown', event => event.preventDefault())
  }

  protected override view(): Template {
    return html`
      ${keys.map(
        ({ face, name, press }) => html`
        <button type="button" class="quiet" aria-label="${name?.() ?? null}" translate="no"
          @click="${() => this.terminal?.press(press)}">${face}</button>`
      )}`
  }
}
