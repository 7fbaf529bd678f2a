import type { SettingDescription } from '../../lib/model/setting.js'
import { css } from '../elements/element.js'
import { html, icon, keyed, type Template } from '../dom/html.js'
import { errorLine, SvcDialog, saveMerged, type SvcConflict } from '../elements/base/form.js'
import { Page, roomTabs } from './page.js'
import { groupSettings, type NamedSetting, settingLabels } from '../elements/settings/setting-groups.js'
import { loaded, type Resource, staleLine } from '../state/resource.js'
import { SvcAdminToken } from '../elements/settings/svc-admin-token.js'
import { SvcCopy } from '../elements/base/facts.js'
import { elements as sessionElements } from '../elements/settings/svc-sessions.js'
import {
  resultOf,
  type SvcNotificationTargets,
  elements as targetElements
} from '../elements/settings/svc-notification-targets.js'
import { eventRows } from '../elements/settings/svc-notification-target.js'
import { maskWords } from '../elements/base/words.js'
import {
  type AdminCalls,
  createAdminCalls,
  createTargetCalls,
  type TargetCalls,
  type WebhookTest
} from '../server/admin-calls.js'
import { Refused } from '../server/client.js'
import { countWords, t } from '../words/t.js'
import { errorWords, twoLines } from '../words/errors.js'

interface Shown {
  schema: SettingDescription[]
  values: Record<string, string>
  tag: string | null
}

/** All settings, as the server describes them. The query `key` focuses one of them. */
export class SettingsPage extends Page {
  static override sheet = css`
    svc-page-settings {
      .sheet { display: grid; gap: 32px; max-width: 760px; }
      .group { display: grid; gap: 12px; grid-template-columns: minmax(0, 1fr); }
      .setting { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 340px); gap: 4px 32px; padding: 16px 20px; align-items: start; }
      .setting + .setting { border-top: 1px solid var(--line); }
      .setting.sought { background: var(--accent-quiet); }
      .name { display: grid; gap: 2px; }
      .name label { font-weight: 500; }
      .name .changed { color: var(--accent); font-size: var(--size-12); font-weight: 500; }
      .name code { color: var(--muted); font-size: var(--size-12); }
      .value { display: grid; gap: 4px; }
      .value .row { display: flex; align-items: center; gap: 8px; }
      .value .row input { min-width: 0; flex: 1; }
      .value .row .unit { flex: none; color: var(--muted); font-size: var(--size-13); }
      .value .hint { color: var(--muted); font-size: var(--size-13); overflow-wrap: anywhere; }
      .value .error { display: flex; gap: 8px; color: var(--failure); font-size: var(--size-13); }
      .value .error .icon { margin-top: 2px; }
      .secret { flex-wrap: wrap; }
      .secret input { flex-basis: 100% !important; }
      .test { display: flex; flex-wrap: wrap; align-items: center; gap: 8px 16px; padding: 16px 20px; border-top: 1px solid var(--line); }
      .test p { flex: 1 1 260px; min-width: 0; overflow-wrap: anywhere; font-size: var(--size-13); }
      .test .good { color: var(--success); }
      .test .bad { color: var(--failure); }
      .name .label { font-weight: 500; }
      .checks { display: flex; flex-wrap: wrap; gap: 6px 20px; }
      @media (max-width: 719px) {
        .setting { grid-template-columns: minmax(0, 1fr); gap: 10px; padding: 14px 16px; }
        .test { padding: 14px 16px; }
      }
    }
  `

  #calls!: AdminCalls
  #targetCalls!: TargetCalls
  #shown!: Resource<Shown>
  readonly #draft = new Map<string, string>()
  readonly #shownSecrets = new Set<string>()
  #refusal: unknown = null
  #isSaving = false
  #test: WebhookTest | 'going' | null = null
  #hasSought = false

  protected override connected(): void {
    this.entitle(t('Settings'), [{ words: t('Settings') }])
    this.#calls = createAdminCalls(this.context.client)
    this.#targetCalls = createTargetCalls(this.context.client)
    this.#shown = this.resource(async signal => {
      const [schema, { values, tag }] = await Promise.all([
        this.#calls.settingsSchema(signal),
        this.#calls.settings(signal)
      ])
      return { schema, values, tag }
    })
    this.listen(window, 'beforeunload', event => {
      if (this.#changes().length > 0) event.preventDefault()
    })
  }

  protected override moved(): void {
    this.#hasSought = false
  }

  protected override view(): Template {
    return html`
      <div class="page-head"><div><h1>${t('Settings')}</h1></div></div>
      ${roomTabs('settings', 'settings')}
      ${staleLine(this.#shown)}
      ${loaded(this.#shown, 'the settings', shown => this.#page(shown))}`
  }

  /** Scrolls to the setting of the query and focuses it. */
  protected override rendered(): void {
    const key = this.place.query.get('key')
    if (key === null || this.#hasSought || this.#shown.value === undefined) return
    const control = this.querySelector<HTMLElement>(`[id="${CSS.escape(`setting-${key}`)}"]`)
    this.#hasSought = true
    control?.closest('.setting')?.scrollIntoView({ block: 'center' })
    control?.focus({ preventScroll: true })
  }

  #page(shown: Shown): Template {
    const groups = groupSettings(shown.schema)
    const changes = this.#changes()
    const key = this.place.query.get('key')
    const isUnknown = key !== null && !shown.schema.some(setting => setting.key === key)
    const refusedField = this.#refusal instanceof Refused ? this.#refusal.field : undefined
    const isElsewhere = this.#refusal !== null && !shown.schema.some(setting => setting.key === refusedField)
    return html`
      <div class="sheet">
        <svc-notification-targets .calls="${this.#targetCalls}"></svc-notification-targets>
        ${isUnknown ? errorLine(t('There is no setting “{key}” on this server.', { key })) : null}
        <form class="sheet" novalidate="" @submit="${(event: Event) => void this.#save(event)}">
          ${groups.map(
            ({ words, settings }, index) => html`
            <section class="group" aria-label="${t(words)}">
              ${index === 0 ? html`<h3>${t(words)}</h3>` : html`<h2>${t(words)}</h2>`}
              <div class="card">
                ${settings.map(setting => keyed(setting.key, this.#setting(setting, shown.values[setting.key] ?? '')))}
                ${index === 0 ? this.#webhookTest(shown.values) : null}
              </div>
            </section>`
          )}
          <div class="${changes.length === 0 ? 'save' : 'save due'}">
            <button class="primary" disabled="${this.#isSaving || changes.length === 0}">
              ${this.#isSaving ? t('Saving…') : t('Save')}
            </button>
            ${
              changes.length === 0
                ? null
                : html`
                <button type="button" @click="${() => this.#discard()}">${t('Discard')}</button>
                <span class="muted small" role="status">
                  ${t('{count} not saved yet.', { count: countWords(changes.length, 'change') })}
                </span>`
            }
            ${errorLine(isElsewhere ? errorWords(this.#refusal) : null)}
          </div>
        </form>
        <svc-sessions .calls="${this.#calls}" .session="${this.context.session}" .changes="${this.context.changes}"></svc-sessions>
        <svc-conflict class="of-settings"></svc-conflict>
        <svc-admin-token .calls="${this.#calls}"></svc-admin-token>
      </div>`
  }

  #setting(setting: NamedSetting, kept: string): Template {
    const { key, type, help } = setting
    const value = this.#draft.get(key) ?? kept
    const error =
      this.#refusal instanceof Refused && this.#refusal.field === key
        ? errorWords(this.#refusal, settingLabels)
        : undefined
    const fallback =
      type === 'flag' || setting.default === '' ? null : t('Default: {value}', { value: setting.default })
    const hints =
      setting.choices !== undefined
        ? ''
        : [type === 'list' ? t('Separate several values with commas.') : null, fallback].filter(Boolean).join(' ')
    const described = `setting-${key}-help${hints === '' ? '' : ` setting-${key}-hint`}${error === undefined ? '' : ` setting-${key}-error`}`
    return html`
      <div class="${this.place.query.get('key') === key ? 'setting sought' : 'setting'}">
        <div class="name">
          ${
            setting.choices === undefined
              ? html`<label for="${`setting-${key}`}">${t(setting.words)}</label>`
              : html`<span class="label" id="${`setting-${key}-name`}">${t(setting.words)}</span>`
          }
          <span class="muted small" id="${`setting-${key}-help`}">${t(help)}</span>
          <code>${key}</code>
          ${this.#draft.has(key) ? html`<span class="changed">${t('Changed')}</span>` : null}
        </div>
        <div class="value">
          ${this.#control(setting, { value, described, isWrong: error !== undefined })}
          ${
            error === undefined
              ? null
              : html`<p class="error" id="${`setting-${key}-error`}">${icon('warning')}<span>${twoLines(error)}</span></p>`
          }
          ${hints === '' ? null : html`<p class="hint" id="${`setting-${key}-hint`}">${hints}</p>`}
        </div>
      </div>`
  }

  #control(setting: NamedSetting, { value, described, isWrong }: ControlState): Template {
    const { key, type, unit, choices } = setting
    const id = `setting-${key}`
    if (choices !== undefined) return this.#choices(key, { choices, value, described })
    const onInput = (event: Event): void => this.#edit(key, (event.currentTarget as HTMLInputElement).value)
    if (type === 'flag') {
      const onChange = (event: Event): void =>
        this.#edit(key, String((event.currentTarget as HTMLInputElement).checked))
      return html`
        <label class="check">
          <input type="checkbox" id="${id}" .checked="${value === 'true'}" aria-describedby="${described}" @change="${onChange}">
          <span>${t('On')}</span>
        </label>`
    }
    const isSecret = type === 'secret'
    const isShown = this.#shownSecrets.has(key)
    return html`
      <div class="${isSecret ? 'row secret' : 'row'}">
        <input id="${id}" class="${type === 'number' ? null : 'mono'}" type="${isSecret && !isShown ? 'password' : 'text'}"
          inputmode="${type === 'number' ? 'numeric' : null}" autocomplete="${isSecret ? 'new-password' : 'off'}"
          autocapitalize="off" spellcheck="false" aria-invalid="${isWrong ? 'true' : null}" aria-describedby="${described}"
          .value="${value}" @input="${onInput}">
        ${unit === null ? null : html`<span class="unit">${t(unit)}</span>`}
        ${
          isSecret && value !== ''
            ? html`
            <button type="button" aria-pressed="${isShown ? 'true' : 'false'}" @click="${() => this.#toggle(key)}">
              ${isShown ? t('Hide') : t('Show')}
            </button>
            <svc-copy .text="${value}"></svc-copy>`
            : null
        }
      </div>`
  }

  /** Shows a list of known items as checkboxes. */
  #choices(key: string, { choices, value, described }: ChoicesState): Template {
    const chosen = value.split(/[\s,]+/).filter(Boolean)
    const check = (choice: string, isChecked: boolean): void =>
      this.#edit(key, choices.filter(each => (each === choice ? isChecked : chosen.includes(each))).join(','))
    return html`
      <div class="checks" role="group" id="${`setting-${key}`}" tabindex="-1" aria-labelledby="${`setting-${key}-name`}" aria-describedby="${described}">
        ${choices.map(
          choice => html`
          <label class="check">
            <input type="checkbox" .checked="${chosen.includes(choice)}" @change="${(event: Event) => check(choice, (event.currentTarget as HTMLInputElement).checked)}">
            <span>${t(eventRows.find(({ event }) => event === choice)?.words ?? choice)}</span>
          </label>`
        )}
      </div>`
  }

  #webhookTest(values: Record<string, string>): Template {
    const isChanged = [...this.#draft.keys()].some(key => key.startsWith('webhook_'))
    const isGoing = this.#test === 'going'
    return html`
      <div class="test">
        <button type="button" disabled="${isGoing || isChanged || values['webhook_url'] === ''}" @click="${() => void this.#sendTest()}">
          ${isGoing ? t('Sending…') : t('Send a test message')}
        </button>
        <p role="status">${
          isChanged || values['webhook_url'] === ''
            ? html`<span class="muted">${t('Save the address first. The test uses the saved address.')}</span>`
            : this.#test === null || this.#test === 'going'
              ? null
              : resultOf(this.#test)
        }</p>
      </div>`
  }

  #changes(): Array<[key: string, value: string]> {
    return [...this.#draft]
  }

  #edit(key: string, value: string): void {
    if (this.#shown.value?.values[key] === value) this.#draft.delete(key)
    else this.#draft.set(key, value)
    if (this.#refusal instanceof Refused && this.#refusal.field === key) this.#refusal = null
    this.update()
  }

  #discard(): void {
    this.#draft.clear()
    this.#refusal = null
    this.update()
  }

  #toggle(key: string): void {
    if (!this.#shownSecrets.delete(key)) this.#shownSecrets.add(key)
    this.update()
  }

  async #save(event: Event): Promise<void> {
    event.preventDefault()
    const changes = this.#changes()
    this.#isSaving = true
    this.#refusal = null
    this.update()
    try {
      if (!(await this.#saveMerged(Object.fromEntries(changes)))) return
      // Input during saving stays an unsaved change.
      for (const [key, value] of changes) if (this.#draft.get(key) === value) this.#draft.delete(key)
      this.#test = null
      this.notify(t('Saved'))
      // The server stores some values in another form.
      await this.#shown.load()
      await this.querySelector<SvcNotificationTargets>('svc-notification-targets')?.reload()
    } catch (error) {
      this.#refusal = error
      const field = error instanceof Refused ? error.field : undefined
      if (field !== undefined) this.querySelector<HTMLElement>(`[id="${CSS.escape(`setting-${field}`)}"]`)?.focus()
    } finally {
      this.#isSaving = false
      this.update()
    }
  }

  /** Saves and resolves conflicts. Returns false if the user cancels. */
  async #saveMerged(mine: Record<string, string>): Promise<boolean> {
    const { schema, values, tag } = this.#shown.value as Shown
    const shown = (key: string, value: unknown): string => {
      const setting = schema.find(setting => setting.key === key)
      if (setting?.type === 'secret') return value === '' ? '' : maskWords(String(value))
      if (setting?.type === 'flag') return value === 'true' ? t('On') : t('Off')
      return String(value)
    }
    const saved = await saveMerged({
      base: { values, tag, state: null },
      mine,
      send: async (changes, tag) => (await this.#calls.saveSettings(changes as Record<string, string>, tag), true),
      keep: () => true,
      load: async () => ({ ...(await this.#calls.settings()), state: null }),
      choose: conflicts =>
        (this.querySelector('svc-conflict.of-settings') as SvcConflict).ask(
          conflicts.map(({ name, mine, theirs }) => ({
            name,
            label: t(settingLabels[name] ?? name),
            mine: shown(name, mine),
            theirs: shown(name, theirs)
          }))
        )
    })
    return saved !== null
  }

  async #sendTest(): Promise<void> {
    this.#test = 'going'
    this.update()
    try {
      this.#test = await this.#calls.testWebhook(this.signal)
    } catch (error) {
      this.#test = { success: false, statusCode: null, durationMs: 0, attempts: 0, error: errorWords(error) }
    }
    this.update()
  }
}

interface ChoicesState {
  choices: readonly string[]
  value: string
  described: string
}

interface ControlState {
  value: string
  described: string
  isWrong: boolean
}

/** The elements of this page. */
export const elements = {
  'svc-page-settings': SettingsPage,
  'svc-admin-token': SvcAdminToken,
  'svc-copy': SvcCopy,
  'svc-dialog': SvcDialog,
  ...targetElements,
  ...sessionElements
}
