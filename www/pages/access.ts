import type { TokenList } from '../../lib/model/access.js'
import { css } from '../dom/element.js'
import { html } from '../dom/html.js'
import type { Template } from '../dom/html.js'
import { elements as tokenElements } from '../elements/access/svc-tokens.js'
import type { ChoosableProject } from '../elements/access/svc-project-choice.js'
import { roomTabs } from '../elements/base/room-tabs.js'
import { createTokenCalls, usualMaxDays } from '../server/token-calls.js'
import type { TokenCalls } from '../server/token-calls.js'
import { loaded, staleLine } from '../state/resource.js'
import type { Resource } from '../state/resource.js'
import { t } from '../words/t.js'
import { Page } from './page.js'

/** Uses of tokens change without a change of the settings. */
const refreshMs = 60_000

/** Who has access: the named tokens and the built-in ones. */
export class AccessPage extends Page {
  static override sheet = css`
    svc-page-access {
      .sheet { display: grid; gap: 32px; max-width: 960px; }
    }
  `

  #calls!: TokenCalls
  #list!: Resource<TokenList>
  #projects!: Resource<ChoosableProject[]>
  #maxDays!: Resource<number>

  protected override connected(): void {
    this.entitle(t('Access'), [{ words: t('Settings'), address: 'settings' }, { words: t('Access') }])
    this.#calls = createTokenCalls(this.context.client)
    this.#list = this.resource(signal => this.#calls.list(signal))
    this.#projects = this.resource(async signal => {
      const projects = await this.context.calls.projects(signal)
      return projects.sort((a, b) => a.name.localeCompare(b.name, undefined, { numeric: true }))
    })
    this.#maxDays = this.resource(signal => this.#calls.maxDays(signal))
    this.repeat(refreshMs, () => void this.#list.refresh())
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
          <svc-tokens .list="${list}" .projects="${this.#projects.value ?? []}" .maxDays="${this.#maxDays.value ?? usualMaxDays}"
            .calls="${this.#calls}" @tokenschange="${() => void this.#list.load()}"></svc-tokens>
        </div>`
      )}`
  }
}

/** The elements of this page. */
export const elements = { 'svc-page-access': AccessPage, ...tokenElements }
