import { notice, said, css, SvcElement } from '../element.js'
import { html, icon, type Template } from '../../dom/html.js'
import type { PageContext } from '../../pages/page.js'
import { shownRooms } from '../../router.js'
import { Refused } from '../../server/client.js'
import { languages, type Preferences, type Theme, themes, holderNow, type Language } from '../../state/session.js'
import { countWords, t, errorWords } from '../../words/t.js'
import { elements as factorElements } from '../access/svc-second-factor.js'
import { roleWords } from '../base/words.js'

const themeWords: Record<Theme, string> = { system: 'Same as system', light: 'Light', dark: 'Dark' }

/**
 * The reader's preferences, and the keyboard shortcuts of the panel. Properties: `context`, `preferences`. Event:
 * `dialogclose`.
 */
export class SvcPreferences extends SvcElement {
  static override sheet = css`
    svc-preferences {
      .choices { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 16px; }
      dl { display: grid; grid-template-columns: auto minmax(0, 1fr); gap: 6px 16px; margin-top: 4px; }
      dt { display: flex; gap: 4px; }
      kbd {
        min-width: 24px;
        padding: 1px 6px;
        border: 1px solid var(--line);
        border-radius: 4px;
        background: var(--sunken);
        font: var(--size-12) / 1.5 var(--sans);
        text-align: center;
      }
      .keys { display: grid; gap: 8px; }
      .who svc-second-factor { margin-top: 8px; }
      .actions { justify-content: space-between; }
      @media (max-width: 719px) { .choices { grid-template-columns: minmax(0, 1fr); } .keys { display: none; } }
    }
  `

  context!: PageContext
  preferences!: Preferences

  protected override view(): Template {
    return html`<svc-dialog heading="${t('Preferences')}" .content="${this.#content()}"></svc-dialog>`
  }

  #content(): Template {
    const { theme, language } = this.preferences
    return html`
      <div class="form">
        <div class="choices">
          <div class="field">
            <label for="preferences-theme">${t('Appearance')}</label>
            <select id="preferences-theme" @change="${(event: Event) => this.#setTheme(valueOf(event))}">
              ${themes.map(
                value => html`
                <option value="${value}" .selected="${value === theme}">${t(themeWords[value])}</option>`
              )}
            </select>
          </div>
          <div class="field">
            <label for="preferences-language">Language · 语言</label>
            <select id="preferences-language" @change="${(event: Event) => this.#setLanguage(valueOf(event))}">
              ${languages.map(
                ({ value, words }) => html`
                <option value="${value}" .selected="${value === language}">${words}</option>`
              )}
            </select>
          </div>
        </div>
        <section class="keys">
          <h3>${t('Keyboard shortcuts')}</h3>
          <dl>
            ${key(['Ctrl', 'K'], t('Search and commands'))}
            ${key(['/'], t('Go to the search field'))}
            ${shownRooms().map(({ key: letter, words }) => key(['g', letter], t(words)))}
            ${key(['?'], t('Show keyboard shortcuts'))}
          </dl>
        </section>
        ${this.#who()}
        <div class="actions">
          <button type="button" class="danger" @click="${() => void this.#signOut()}">
            ${icon('sign-out')}<span>${t('Sign out')}</span>
          </button>
          <button type="button" class="primary" autofocus="" @click="${() => this.#close()}">${t('Close')}</button>
        </div>
      </div>`
  }

  /** Shows the token that the session began with, its role, its projects, and its second factor. */
  #who(): Template | null {
    const holder = holderNow()
    if (holder === null) return null
    const { role, token, projects } = holder
    const scope = projects === null ? t('all projects') : countWords(projects.length, 'project')
    return html`
      <section class="who">
        <h3>${t('Signed in with')}</h3>
        <p><b class="anywhere" translate="${token === null ? null : 'no'}">${token?.name ?? t('Admin token')}</b></p>
        <p class="muted small">${t(roleWords[role])} · ${scope}</p>
        ${token === null ? null : html`<svc-second-factor .client="${this.context.client}"></svc-second-factor>`}
      </section>`
  }

  #setTheme(value: string): void {
    const theme = themes.find(theme => theme === value) ?? 'system'
    this.preferences.theme = theme
    document.documentElement.dataset['theme'] = theme
  }

  /** Reloads the page, because every text changes. */
  #setLanguage(value: string): void {
    this.preferences.language = value as Language
    location.reload()
  }

  /** Only the server can remove the cookie. Without its answer, the reader stays signed in. */
  async #signOut(): Promise<void> {
    try {
      await this.context.client.call('DELETE /api/auth/session')
    } catch (error) {
      if (!(error instanceof Refused) || error.status !== 401) {
        this.dispatchEvent(notice(errorWords(error), 'failed'))
        return
      }
    }
    this.#close()
    this.context.session.end('signed_out')
  }

  #close(): void {
    this.dispatchEvent(said('dialogclose'))
  }
}

const valueOf = (event: Event): string => (event.currentTarget as HTMLSelectElement).value

function key(keys: readonly string[], words: string): Template {
  return html`<dt>${keys.map(each => html`<kbd>${each}</kbd>`)}</dt><dd>${words}</dd>`
}

/** The elements that www/main.ts registers for the preferences. */
export const elements = { 'svc-preferences': SvcPreferences, ...factorElements }
