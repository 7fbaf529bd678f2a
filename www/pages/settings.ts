import { readSettings } from '../server/requests.js'
import type { SettingDescription } from '../../lib/model/setting.js'
import { css, type Said } from '../elements/element.js'
import { html, keyed, type Template } from '../dom/html.js'
import { errorLine, SvcDialog } from '../elements/base/form.js'
import { UnsavedCards } from '../elements/base/saving.js'
import { Page, roomTabs } from './page.js'
import { type CardOfSettings, groupSettings } from '../elements/settings/setting-groups.js'
import { loaded, type Resource, staleLine } from '../state/resource.js'
import { SvcAdminToken } from '../elements/settings/svc-admin-token.js'
import { SvcCopy } from '../elements/base/facts.js'
import { type SettingValues, SvcSettingCard } from '../elements/settings/svc-setting-card.js'
import { elements as sessionElements } from '../elements/settings/svc-sessions.js'
import {
  type SvcNotificationTargets,
  elements as targetElements
} from '../elements/settings/svc-notification-targets.js'
import { t } from '../words/t.js'

interface Shown {
  schema: SettingDescription[]
  now: SettingValues
}

/** All settings, as the server describes them, in cards. The query `key` focuses one of them. */
export class SettingsPage extends Page {
  static override sheet = css`
    svc-page-settings {
      .sheet { display: grid; gap: 32px; }
    }
  `

  #shown!: Resource<Shown>
  #cards!: UnsavedCards
  #sought: { key: string } | null = null

  protected override connected(): void {
    this.entitle(t('Settings'), [{ words: t('Settings') }])
    this.#cards = new UnsavedCards({
      update: () => this.update(),
      guard: this.context.guard,
      signal: this.signal
    })
    this.#shown = this.resource(async signal => {
      const [schema, now] = await Promise.all([
        this.context.client.call('GET /api/settings/schema', { signal }).then(answer => answer.settings),
        readSettings(this.context.client, signal)
      ])
      return { schema, now }
    })
    this.moved()
  }

  protected override moved(): void {
    const key = this.place.query.get('key')
    this.#sought = key === null ? null : { key }
  }

  protected override view(): Template {
    return html`
      <div class="page-head"><div><h1>${t('Settings')}</h1></div></div>
      ${roomTabs('settings', 'settings')}
      ${staleLine(this.#shown)}
      ${loaded(this.#shown, 'the settings', shown => this.#page(shown))}
      ${this.#cards.view()}`
  }

  #page({ schema, now }: Shown): Template {
    const key = this.#sought?.key
    const isUnknown = key !== undefined && !schema.some(setting => setting.key === key)
    return html`
      <div class="sheet">
        <svc-notification-targets .client="${this.context.client}"></svc-notification-targets>
        ${isUnknown ? errorLine(t('There is no setting “{key}” on this server.', { key })) : null}
        ${groupSettings(schema).map(card => keyed(card.words, this.#card(card, now)))}
        <svc-sessions .client="${this.context.client}" .session="${this.context.session}" .changes="${this.context.changes}"></svc-sessions>
        <svc-admin-token .client="${this.context.client}"></svc-admin-token>
      </div>`
  }

  #card(card: CardOfSettings, now: SettingValues): Template {
    const isHere = card.settings.some(({ key }) => key === this.#sought?.key)
    return html`
      <svc-setting-card .card="${card}" .shown="${now}" .client="${this.context.client}" .sought="${isHere ? this.#sought : null}"
        @unsaved="${(event: Event) => this.#cards.set(t(card.words), (event as Said<'unsaved'>).isUnsaved)}"
        @settingssaved="${() => void this.#saved()}"></svc-setting-card>`
  }

  /** The server stores some values in another form, and the first target is made of settings. */
  async #saved(): Promise<void> {
    await this.#shown.load()
    await this.querySelector<SvcNotificationTargets>('svc-notification-targets')?.reload()
  }
}

export const elements = {
  'svc-page-settings': SettingsPage,
  'svc-admin-token': SvcAdminToken,
  'svc-copy': SvcCopy,
  'svc-dialog': SvcDialog,
  'svc-setting-card': SvcSettingCard,
  ...targetElements,
  ...sessionElements
}
