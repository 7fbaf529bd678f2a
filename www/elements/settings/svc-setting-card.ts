import { ifMatch, Refused, type Client } from '../../server/client.js'
import { type WebhookTest, readSettings } from '../../server/requests.js'
import { css, notice, said, SvcElement } from '../element.js'
import { html, icon, keyed, type Template } from '../../dom/html.js'
import { errorWords, twoLines, t } from '../../words/t.js'
import { choice, Submission } from '../base/form.js'
import { isSame, saveBar, saveMerged, type SvcConflict } from '../base/saving.js'
import { maskWords } from '../base/words.js'
import { type CardOfSettings, type NamedSetting, settingLabels } from './setting-groups.js'
import { eventRows } from './svc-notification-target.js'
import { resultOf } from './svc-notification-targets.js'

/** The values of all settings, and the tag of their state. */
export interface SettingValues {
  values: Record<string, string>
  tag: string | null
}

/**
 * One card of the settings of the server, which saves its own. Properties: `card`, `shown`, `client`; `sought`: the setting
 * to focus, a new object each time. Events: `settingssaved`, `unsaved`, `notice`.
 */
export class SvcSettingCard extends SvcElement {
  static override sheet = css`
    svc-setting-card {
      display: grid;
      gap: 12px;

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
      .save { padding: 12px 20px; border-top: 1px solid var(--line); }
      .save.due { margin: 0; }
      @media (max-width: 719px) {
        .setting { grid-template-columns: minmax(0, 1fr); gap: 10px; padding: 14px 16px; }
        .test, .save, .card > .save.due { padding: 12px 16px; }
      }
    }
  `

  card!: CardOfSettings
  client!: Client
  sought: { key: string } | null = null
  #hasSought = false
  #base!: SettingValues
  readonly #draft = new Map<string, string>()
  readonly #shownSecrets = new Set<string>()
  readonly #submission = new Submission(this)
  #test: WebhookTest | 'going' | null = null

  get shown(): SettingValues {
    return this.#base
  }

  /** While there are unsaved changes, saving asks about values that are newer. */
  set shown(shown: SettingValues) {
    const isAsBefore = [...this.#draft.keys()].every(key => isSame(shown.values[key], this.#base.values[key]))
    if (isAsBefore) this.#base = shown
    this.update()
  }

  protected override changed(name: string): void {
    if (name === 'sought') this.#hasSought = false
  }

  /** Scrolls to the sought setting and focuses it. */
  protected override rendered(): void {
    if (this.sought === null || this.#hasSought) return
    const control = this.querySelector<HTMLElement>(`[id="${CSS.escape(`setting-${this.sought.key}`)}"]`)
    this.#hasSought = true
    control?.closest('.setting')?.scrollIntoView({ block: 'center' })
    control?.focus({ preventScroll: true })
  }

  protected override view(): Template {
    const { words, settings, isPart } = this.card
    const { isBusy, refusal, problem } = this.#submission
    const field = refusal instanceof Refused ? refusal.field : undefined
    const isPlaced = settings.some(({ key }) => key === field)
    return html`
      ${isPart === true ? html`<h3>${t(words)}</h3>` : html`<h2>${t(words)}</h2>`}
      <form class="card" aria-label="${t(words)}" novalidate="" @submit="${(event: Event) => void this.#save(event)}">
        ${settings.map(setting => keyed(setting.key, this.#setting(setting)))}
        ${isPart === true ? this.#webhookTest() : null}
        ${saveBar({
          isBusy,
          isUnsaved: this.#draft.size > 0,
          problem: isPlaced ? null : problem,
          onDiscard: () => this.#discard()
        })}
      </form>
      <svc-conflict></svc-conflict>`
  }

  #setting(setting: NamedSetting): Template {
    const { key, type, help } = setting
    const value = this.#draft.get(key) ?? this.#base.values[key] ?? ''
    const { refusal } = this.#submission
    const error = refusal instanceof Refused && refusal.field === key ? errorWords(refusal, settingLabels) : undefined
    const fallback =
      type === 'flag' || setting.default === '' ? null : t('Default: {value}', { value: setting.default })
    const hints =
      setting.choices !== undefined
        ? ''
        : [type === 'list' ? t('Separate several values with commas.') : null, fallback].filter(Boolean).join(' ')
    const described = `setting-${key}-help${hints === '' ? '' : ` setting-${key}-hint`}${error === undefined ? '' : ` setting-${key}-error`}`
    return html`
      <div class="${this.sought?.key === key ? 'setting sought' : 'setting'}">
        <div class="name">
          ${
            setting.choices === undefined && type !== 'flag'
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
    const { key, type, unit, choices, sentences } = setting
    const id = `setting-${key}`
    if (choices !== undefined) return this.#choices(key, { choices, value, described })
    const onInput = (text: string): void => this.#edit(key, text)
    if (type === 'flag')
      return choice({ form: 'setting', name: key, labelledBy: `${id}-name`, value, choices: sentences, onInput })
    const isSecret = type === 'secret'
    const isShown = this.#shownSecrets.has(key)
    return html`
      <div class="${isSecret ? 'row secret' : 'row'}">
        <input id="${id}" class="${type === 'number' ? null : 'mono'}" type="${isSecret && !isShown ? 'password' : 'text'}"
          inputmode="${type === 'number' ? 'numeric' : null}" autocomplete="${isSecret ? 'new-password' : 'off'}"
          autocapitalize="off" spellcheck="false" aria-invalid="${isWrong ? 'true' : null}" aria-describedby="${described}"
          .value="${value}" @input="${(event: Event) => onInput((event.currentTarget as HTMLInputElement).value)}">
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

  #webhookTest(): Template {
    const isUnset = this.#draft.size > 0 || this.#base.values['webhook_url'] === ''
    const isGoing = this.#test === 'going'
    return html`
      <div class="test">
        <button type="button" disabled="${isGoing || isUnset}" @click="${() => void this.#sendTest()}">
          ${isGoing ? t('Sending…') : t('Send a test message')}
        </button>
        <p role="status">${
          isUnset
            ? html`<span class="muted">${t('Save the address first. The test uses the saved address.')}</span>`
            : this.#test === null || this.#test === 'going'
              ? null
              : resultOf(this.#test)
        }</p>
      </div>`
  }

  #edit(key: string, value: string): void {
    if (this.#base.values[key] === value) this.#draft.delete(key)
    else this.#draft.set(key, value)
    if (this.#submission.refusal instanceof Refused && this.#submission.refusal.field === key)
      this.#submission.refuse(null)
    this.#tell()
  }

  #discard(): void {
    this.#draft.clear()
    this.#submission.refuse(null)
    this.#tell()
  }

  #tell(): void {
    this.dispatchEvent(said('unsaved', { isUnsaved: this.#draft.size > 0 }))
    this.update()
  }

  #toggle(key: string): void {
    if (!this.#shownSecrets.delete(key)) this.#shownSecrets.add(key)
    this.update()
  }

  async #save(event: Event): Promise<void> {
    event.preventDefault()
    const changes = [...this.#draft]
    await this.#submission.run(async () => {
      if (!(await this.#saveMerged(Object.fromEntries(changes)))) return
      // Input during saving stays an unsaved change.
      for (const [key, value] of changes) if (this.#draft.get(key) === value) this.#draft.delete(key)
      this.#test = null
      this.#tell()
      this.dispatchEvent(notice(t('Saved')))
      this.dispatchEvent(said('settingssaved'))
    })
  }

  /** Saves and resolves conflicts. Returns false if the user cancels. */
  async #saveMerged(mine: Record<string, string>): Promise<boolean> {
    const { values, tag } = this.#base
    const shown = (key: string, value: unknown): string => {
      const setting = this.card.settings.find(setting => setting.key === key)
      if (setting?.type === 'secret') return value === '' ? '' : maskWords(String(value))
      return t(setting?.sentences.find(each => each.value === value)?.words ?? String(value))
    }
    const saved = await saveMerged({
      base: { values, tag, state: null },
      mine,
      send: async (changes, tag) => (
        await this.client.call('PUT /api/settings', { body: changes as Record<string, string>, headers: ifMatch(tag) }),
        true
      ),
      keep: () => true,
      load: async () => ({ ...(await readSettings(this.client)), state: null }),
      choose: conflicts =>
        (this.querySelector('svc-conflict') as SvcConflict).ask(
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
      this.#test = await this.client.call('POST /api/settings/webhook-test', { signal: this.signal })
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
