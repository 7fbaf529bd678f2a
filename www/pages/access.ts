import { usualMaxDays } from '../server/requests.js'
import type { SignersFile, SigningKey } from '../../lib/model/statement.js'
import type { TokenList } from '../../lib/model/access.js'
import { css } from '../elements/element.js'
import { html, type Template } from '../dom/html.js'
import { elements as factorElements } from '../elements/access/svc-second-factor.js'
import { elements as tokenElements } from '../elements/access/svc-tokens.js'
import type { ChoosableProject } from '../elements/access/svc-token-form.js'
import { Page, roomTabs } from './page.js'
import { loaded, type Resource, staleLine } from '../state/resource.js'
import { holderNow } from '../state/session.js'
import { t } from '../words/t.js'

/** Uses of tokens change without a change of the settings. */
const refreshMs = 60_000

/** Who has access: the named tokens and the built-in ones. */
export class AccessPage extends Page {
  static override sheet = css`
    svc-page-access {
      .sheet { display: grid; gap: 32px; grid-template-columns: minmax(0, 1fr); }
      .own { display: grid; gap: 12px; grid-template-columns: minmax(0, 1fr); }
    }
  `

  #list!: Resource<TokenList>
  #projects!: Resource<ChoosableProject[]>
  #maxDays!: Resource<number>
  #keys!: Resource<{ items: SigningKey[]; file: SignersFile | null }>

  protected override connected(): void {
    this.entitle(t('Access'), [{ words: t('Settings'), address: 'settings' }, { words: t('Access') }])
    this.#list = this.resource(signal => this.context.client.call('GET /api/tokens', { signal }))
    this.#projects = this.resource(async signal => {
      const projects = await this.context.client.call('GET /api/projects', { signal })
      return projects.sort((a, b) => a.name.localeCompare(b.name, undefined, { numeric: true }))
    })
    this.#maxDays = this.resource(signal => this.#longestDays(signal))
    this.#keys = this.resource(async signal => {
      const [keys, { elements }] = await Promise.all([
        this.context.client.call('GET /api/signing-keys', { signal }),
        import('../elements/access/svc-signing-keys.js')
      ])
      this.context.define(elements)
      return keys
    })
    this.repeat(refreshMs, () => void this.#list.refresh())
  }

  /** Returns the longest lifetime of a token in days, as the settings say. */
  async #longestDays(signal: AbortSignal): Promise<number> {
    const { token_max_days: days } = await this.context.client.call('GET /api/settings', { signal })
    return Number(days) || usualMaxDays
  }

  /** Returns the second factor of the own token. The admin token cannot have one. */
  #ownFactor(): Template | null {
    const name = holderNow()?.token?.name
    if (name === undefined) return null
    return html`
      <section class="own">
        <h2 class="anywhere">${t('Second factor of {name}', { name })}</h2>
        <div class="card padded">
          <svc-second-factor .client="${this.context.client}" @factorchange="${() => void this.#list.load()}"></svc-second-factor>
        </div>
      </section>`
  }

  protected override view(): Template {
    return html`
      <div class="page-head"><div><h1>${t('Access')}</h1></div></div>
      ${roomTabs('settings', 'access')}
      ${staleLine(this.#list)}
      ${loaded(
        this.#list,
        'the tokens',
        list => html`
        <div class="sheet">
          ${this.#ownFactor()}
          <svc-tokens .list="${list}" .projects="${this.#projects.value ?? []}" .maxDays="${this.#maxDays.value ?? usualMaxDays}"
            .client="${this.context.client}" @tokenschange="${() => void this.#list.load()}"></svc-tokens>
          ${
            this.#keys.value === undefined
              ? null
              : html`<svc-signing-keys .keys="${this.#keys.value.items}" .file="${this.#keys.value.file}" .projects="${this.#projects.value ?? []}" .client="${this.context.client}"
                  @keyschange="${() => void this.#keys.load()}"></svc-signing-keys>`
          }
        </div>`
      )}`
  }
}

export const elements = { 'svc-page-access': AccessPage, ...tokenElements, ...factorElements }
