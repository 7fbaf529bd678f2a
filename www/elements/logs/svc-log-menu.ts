import { said, type LogChoice } from '../events.js'
import { css, SvcElement } from '../../dom/element.js'
import { html, icon, type Template } from '../../dom/html.js'
import { t } from '../../words/t.js'

const choices: ReadonlyArray<{ choice: LogChoice; words: string }> = [
  { choice: 'copy_colors', words: 'Copy with colours' },
  { choice: 'select_all', words: 'Select all loaded lines' },
  { choice: 'go_to_time', words: 'Go to a time…' }
]

/** The less common actions of a log. Event: `logmenu`. Keys: the arrows move, Escape closes. */
export class SvcLogMenu extends SvcElement {
  static override sheet = css`
    svc-log-menu {
      position: relative;
      display: flex;

      [role='menu'] {
        position: absolute;
        z-index: 2;
        right: 0;
        top: calc(100% + 4px);
        display: grid;
        min-width: 200px;
        padding: 4px;
        border-radius: 8px;
        background: var(--raised);
        box-shadow: var(--float);
      }

      [role='menu'] button { justify-content: flex-start; border-color: transparent; background: none; color: var(--text); }
      [role='menu'] button:focus-visible { outline-offset: -2px; }
    }
  `

  #isOpen = false

  protected override connected(): void {
    this.listen(document, 'pointerdown', event => {
      if (this.#isOpen && event.target instanceof Node && !this.contains(event.target)) this.#open(false)
    })
  }

  protected override view(): Template {
    return html`
      <button type="button" class="quiet" aria-haspopup="menu" aria-expanded="${this.#isOpen ? 'true' : 'false'}"
        @click="${() => this.#open(!this.#isOpen)}">${icon('more')}<span class="unseen">${t('More')}</span></button>
      ${
        this.#isOpen
          ? html`
          <div role="menu" aria-label="${t('More')}" @keydown="${(event: Event) => this.#key(event as KeyboardEvent)}">
            ${choices.map(
              ({ choice, words }) => html`
              <button type="button" role="menuitem" @click="${() => this.#choose(choice)}">${t(words)}</button>`
            )}
          </div>`
          : null
      }`
  }

  protected override rendered(): void {
    const menu = this.querySelector('[role=menu]')
    if (menu !== null && !menu.contains(document.activeElement)) menu.querySelector('button')?.focus()
  }

  #open(isOpen: boolean): void {
    this.#isOpen = isOpen
    this.update()
  }

  #choose(choice: LogChoice): void {
    this.#open(false)
    this.querySelector('button')?.focus()
    this.dispatchEvent(said('logmenu', { choice }))
  }

  #key(event: KeyboardEvent): void {
    const items = [...this.querySelectorAll<HTMLElement>('[role=menuitem]')]
    const at = items.indexOf(document.activeElement as HTMLElement)
    const moves: Record<string, number> = {
      ArrowDown: at + 1,
      ArrowUp: at - 1 + items.length,
      Home: 0,
      End: items.length - 1
    }
    const to = moves[event.key]
    if (event.key === 'Escape' || event.key === 'Tab') {
      this.#open(false)
      this.querySelector('button')?.focus()
    } else if (to !== undefined) {
      items[to % items.length]?.focus()
    } else {
      return
    }
    if (event.key !== 'Tab') event.preventDefault()
    event.stopPropagation()
  }
}
