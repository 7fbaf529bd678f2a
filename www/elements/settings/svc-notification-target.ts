import { ifMatch, type Client } from '../../server/client.js'
import type { TargetFields, TargetList } from '../../server/requests.js'
import type { NotificationEvent, NotificationKind, NotificationTargetView } from '../../../lib/model/setting.js'
import { said, css, SvcElement } from '../element.js'
import { html, type Template } from '../../dom/html.js'
import { errorLine, field, Submission, submitted } from '../base/form.js'
import { type Loaded, saveMerged, SvcConflict } from '../base/saving.js'
import { t, fieldLabels } from '../../words/t.js'

/* Labels of the kinds and events of notification targets. Pure. */

/** `words` is English and passed to t(). `secret`: the kind signs its messages with a secret. */
export const kindRows: ReadonlyArray<{ kind: NotificationKind; words: string; secret: boolean }> = [
  { kind: 'generic', words: 'JSON', secret: true },
  { kind: 'slack', words: 'Slack', secret: false },
  { kind: 'teams', words: 'Microsoft Teams', secret: false },
  { kind: 'feishu', words: 'Feishu or Lark', secret: true },
  { kind: 'dingtalk', words: 'DingTalk', secret: true },
  { kind: 'wecom', words: 'WeCom', secret: false },
  { kind: 'discord', words: 'Discord', secret: false },
  { kind: 'ntfy', words: 'ntfy', secret: true },
  { kind: 'telegram', words: 'Telegram', secret: true },
  { kind: 'email', words: 'Mail', secret: true }
]

interface SecretWords {
  label: { words: string }
  hint: { words: string }
}

/** What the secret of a kind is, unless it signs messages. */
const secretWords: Partial<Record<NotificationKind, SecretWords>> = {
  ntfy: { label: { words: 'Access token' }, hint: { words: 'Only for topics that are protected.' } },
  telegram: { label: { words: 'Token of the bot' }, hint: { words: 'From BotFather, like 123456:ABC-def.' } },
  email: { label: { words: 'Password' }, hint: { words: 'Of the user of the mail server. Empty: nobody signs in.' } }
}

/** Returns the address of a target that the form asks for in parts; empty if no part is given. */
export function addressOfParts(kind: NotificationKind, values: Readonly<Record<string, string>>): string {
  if (kind === 'telegram') {
    const chat = (values['chat'] ?? '').trim()
    return chat === '' ? '' : `https://api.telegram.org/?${new URLSearchParams({ chat_id: chat })}`
  }
  if (kind !== 'email') return values['url'] ?? ''
  const part = (name: string): string => (values[name] ?? '').trim()
  const [server, user, from, to] = [part('server'), part('user'), part('from'), part('to')]
  if (server === '' && from === '' && to === '') return ''
  const [, scheme = 'smtps:', host = server] = /^(smtps?:)\/\/(.*)$/.exec(server) ?? []
  const name = user === '' ? '' : `${encodeURIComponent(user)}@`
  return `${scheme}//${name}${host}?${new URLSearchParams({ from, to: addressesOf(to) })}`
}

/** Returns the addresses of a list without the spaces beside its commas. */
function addressesOf(list: string): string {
  return list
    .split(',')
    .map(address => address.trim())
    .join(',')
}

/** The events of notifications, with their labels. */
export const eventRows: ReadonlyArray<{ event: NotificationEvent; words: string }> = [
  { event: 'deploy_success', words: 'Successful deployments' },
  { event: 'deploy_failure', words: 'Failed deployments' },
  { event: 'deploy_waiting', words: 'Deployments that wait for confirmation or approval' },
  { event: 'recovered', words: 'First success after a failure' },
  { event: 'rollout_waiting', words: 'Rollouts that wait for approval' },
  { event: 'rollout_halted', words: 'Halted rollouts' },
  { event: 'node_lost', words: 'Lost nodes' },
  { event: 'drift_found', words: 'Files edited on the server' },
  { event: 'archives_damaged', words: 'Damaged archives' },
  { event: 'disk_low', words: 'Disk almost full' },
  { event: 'backup_failed', words: 'Failed backups' },
  { event: 'token_expiring', words: 'Tokens that expire soon' },
  { event: 'token_locked', words: 'Tokens locked by wrong codes' }
]

export function kindRow(kind: NotificationKind): (typeof kindRows)[number] {
  return kindRows.find(row => row.kind === kind) ?? (kindRows[0] as (typeof kindRows)[number])
}

/** Returns the kind that an address suggests, or null if it is not an address yet. */
export function kindOfAddress(
  address: string,
  domains: ReadonlyArray<{ domain: string; kind: NotificationKind }>
): NotificationKind | null {
  const [, host] = /^https?:\/\/(?:[^/?#@]*@)?([^/?#:]+)/i.exec(address.trim()) ?? []
  if (host === undefined) return null
  const name = host.toLowerCase().replace(/\.$/, '')
  return domains.find(({ domain }) => name === domain || name.endsWith(`.${domain}`))?.kind ?? 'generic'
}

/** The fields that show their own errors. */
const fields = ['name', 'kind', 'url', 'secret', 'projectIds']

/**
 * The form of a notification target. An empty address or secret leaves the stored one unchanged, because the stored one
 * is never shown. Properties: `client`, `domains`; `target`, the one to change, or null for a new
 * one. Event: `targetform`.
 */
export class SvcNotificationTarget extends SvcElement {
  static override sheet = css`
    svc-notification-target {
      display: block;

      fieldset { display: grid; gap: 6px; min-width: 0; margin: 0; padding: 0; border: 0; }
      legend { padding: 0; margin-bottom: 6px; font-weight: 500; font-size: var(--size-13); }
      .checks { display: flex; flex-wrap: wrap; gap: 6px 20px; }
      .projects { display: grid; gap: 4px; max-height: 180px; overflow: auto; padding: 8px 12px; border: 1px solid var(--line); border-radius: 6px; }
      .projects label { min-width: 0; overflow-wrap: anywhere; }
    }
  `

  client!: Client
  domains: TargetList['domains'] = []
  target: NotificationTargetView | null = null
  #kind: NotificationKind = 'generic'
  #isKindChosen = false
  #isForSome = false
  #removesSecret = false
  #projects: Array<{ id: string; name: string }> | null = null
  readonly #submission = new Submission(this)

  protected override connected(): void {
    const { target } = this
    this.#kind = target?.kind ?? 'generic'
    this.#isKindChosen = target !== null
    this.#isForSome = (target?.projectIds.length ?? 0) > 0
    if (this.#isForSome) void this.#loadProjects()
    this.update()
  }

  protected override view(): Template {
    const { target } = this
    return html`
      <form class="form" novalidate="" @submit="${(event: Event) => void this.#save(event)}">
        ${field({ form: 'target', name: 'name', label: t('Name'), value: target?.name ?? '', isRequired: true, hasFocus: true, error: this.#submission.problemOf('name') })}
        <div class="field">
          <label for="target-kind">${t('Kind')}</label>
          <select id="target-kind" name="kind" @change="${(event: Event) => this.#choose(event)}">
            ${kindRows.map(({ kind, words }) => html`<option value="${kind}" .selected="${kind === this.#kind}">${t(words)}</option>`)}
          </select>
        </div>
        ${this.#address(target)}
        ${kindRow(this.#kind).secret ? this.#secret(this.#submission.problemOf('secret')) : null}
        <fieldset>
          <legend>${t('Events')}</legend>
          <div class="checks">
            ${eventRows.map(
              ({ event, words }) => html`
              <label class="check"><input type="checkbox" name="${event}" .checked="${target?.events.includes(event) ?? true}"><span>${t(words)}</span></label>`
            )}
          </div>
        </fieldset>
        ${this.#projectChoice(this.#submission.problemOf('projectIds'))}
        <label class="check"><input type="checkbox" name="enabled" .checked="${target?.enabled ?? true}"><span>${t('Send messages')}</span></label>
        ${errorLine(this.#submission.problemBeside(fields))}
        <div class="actions end">
          <button type="button" @click="${() => this.dispatchEvent(said('targetform', { saved: false }))}">${t('Cancel')}</button>
          <button class="primary" disabled="${this.#submission.isBusy}">${target === null ? t('Add') : t('Save')}</button>
        </div>
      </form>
      <svc-conflict></svc-conflict>`
  }

  /** The address, or the parts that it is made of. */
  #address(target: NotificationTargetView | null): Template {
    const hint = target === null || target.kind !== this.#kind ? undefined : t('Leave empty to keep the address.')
    const part = (name: string, label: string, placeholder: string): Template =>
      field({ form: 'target', name, label, isMono: true, placeholder, ...(hint !== undefined && { hint }) })
    const error = this.#submission.problemOf('url')
    if (this.#kind === 'telegram') {
      return html`${part('chat', t('Chat'), '-1001234567890')}${errorLine(error ?? null)}`
    }
    if (this.#kind === 'email') {
      return html`
        ${part('server', t('Mail server'), 'smtps://mail.example.org:465')}
        <p class="muted small">${t('With smtp:// it must offer STARTTLS.')}</p>
        ${part('user', t('User'), '')}
        ${part('from', t('Sender'), 'svc@example.org')}
        ${part('to', t('Recipients'), 'ops@example.org, dev@example.org')}
        ${errorLine(error ?? null)}`
    }
    return html`
      ${field({
        form: 'target',
        name: 'url',
        label: t('Address'),
        isMono: true,
        isRequired: target === null,
        error: this.#submission.problemOf('url'),
        placeholder: target?.address ?? 'https://',
        hint:
          target === null
            ? t('Copy it from the service. It is a secret and is not shown again.')
            : t('Leave empty to keep the address.'),
        onInput: value => this.#typed(value)
      })}`
  }

  #secret(error: string | undefined): Template {
    const isKept = this.target?.hasSecret === true
    return html`
      ${field({
        form: 'target',
        name: 'secret',
        label: t(secretWords[this.#kind]?.label.words ?? 'Secret'),
        type: 'password',
        autocomplete: 'new-password',
        isMono: true,
        error,
        hint: isKept
          ? t('A secret is set. Leave empty to keep it.')
          : t(secretWords[this.#kind]?.hint.words ?? 'Signs the messages. If empty, messages are not signed.')
      })}
      ${
        isKept
          ? html`
          <label class="check">
            <input type="checkbox" name="removesSecret" .checked="${this.#removesSecret}"><span>${t('Remove secret')}</span>
          </label>`
          : null
      }`
  }

  #projectChoice(error: string | undefined): Template {
    const kept = this.target?.projectIds ?? []
    const known = this.#projects ?? []
    const gone = kept
      .filter(id => !known.some(project => project.id === id))
      .map(id => ({ id, name: t('{id} (deleted)', { id }) }))
    const choose = (isForSome: boolean) => (): void => {
      this.#isForSome = isForSome
      if (isForSome && this.#projects === null) void this.#loadProjects()
      this.update()
    }
    return html`
      <fieldset>
        <legend>${t('Projects')}</legend>
        <div class="checks">
          <label class="check"><input type="radio" name="scope" value="all" .checked="${!this.#isForSome}" @change="${choose(false)}"><span>${t('All projects')}</span></label>
          <label class="check"><input type="radio" name="scope" value="some" .checked="${this.#isForSome}" @change="${choose(true)}"><span>${t('Selected projects')}</span></label>
        </div>
        ${
          this.#isForSome && this.#projects !== null
            ? html`
            <div class="projects">
              ${[...known, ...gone].map(
                ({ id, name }) => html`
                <label class="check"><input type="checkbox" name="project:${id}" .checked="${kept.includes(id)}"><span>${name}</span></label>`
              )}
            </div>`
            : null
        }
        ${errorLine(error ?? null)}
      </fieldset>`
  }

  async #loadProjects(): Promise<void> {
    try {
      this.#projects = await this.client.call('GET /api/projects', { signal: this.signal })
    } catch (error) {
      if (!this.signal.aborted) this.#submission.refuse(error)
    }
    this.update()
  }

  /** Suggests a kind until the reader chooses one. */
  #typed(address: string): void {
    if (this.#submission.problemOf('url') !== undefined) this.#submission.refuse(null)
    const suggested = this.#isKindChosen ? null : kindOfAddress(address, this.domains)
    if (suggested === null || suggested === this.#kind) return
    this.#kind = suggested
    this.update()
  }

  #choose(event: Event): void {
    this.#kind = (event.currentTarget as HTMLSelectElement).value as NotificationKind
    this.#isKindChosen = true
    this.update()
  }

  async #save(event: Event): Promise<void> {
    const values = submitted(event)
    const projectIds = Object.keys(values)
      .filter(name => name.startsWith('project:'))
      .map(name => name.slice('project:'.length))
    if (values['scope'] === 'some' && projectIds.length === 0) {
      return this.#submission.refuse(t('Choose at least one project.'))
    }
    const { secret = '' } = values
    const url = addressOfParts(this.#kind, values)
    const given: TargetFields = {
      name: values['name'] ?? '',
      kind: this.#kind,
      ...(this.target !== null && url.trim() === '' ? {} : { url }),
      ...(values['removesSecret'] !== undefined ? { secret: '' } : secret === '' ? {} : { secret }),
      events: eventRows.map(({ event }) => event).filter((event: NotificationEvent) => values[event] !== undefined),
      projectIds: values['scope'] === 'some' ? projectIds : [],
      enabled: values['enabled'] !== undefined
    }
    await this.#submission.run(async () => {
      const isSaved =
        this.target === null
          ? (await this.client.call('POST /api/notification-targets', { body: given }), true)
          : await this.#change(this.target, given)
      if (isSaved) this.dispatchEvent(said('targetform', { saved: true }))
    })
  }

  /**
   * Returns false if the reader went back to the form. An address is compared by its visible part; a secret cannot be
   * compared.
   */
  async #change(before: NotificationTargetView, given: TargetFields): Promise<boolean> {
    const { id } = before
    const loaded = (target: NotificationTargetView): Loaded<null> => {
      const { name, kind, events, projectIds, enabled, address } = target
      return {
        values: { name, kind, events, projectIds, enabled, url: address === before.address ? '' : address },
        tag: target.updatedAt,
        state: null
      }
    }
    const saved = await saveMerged({
      base: loaded(before),
      mine: { ...given },
      send: async (changes, tag) => (
        await this.client.call('PUT /api/notification-targets/:id', { id, body: changes, headers: ifMatch(tag) }), true
      ),
      keep: () => true,
      load: async () => {
        const target = (await this.client.call('GET /api/notification-targets')).items.find(target => target.id === id)
        if (target === undefined) throw new Error(t('It has been deleted in the meantime.'))
        return loaded(target)
      },
      choose: conflicts =>
        (this.querySelector('svc-conflict') as SvcConflict).ask(
          conflicts.map(({ name, mine, theirs }) => ({
            name,
            label: name === 'enabled' ? t('Send messages') : t(fieldLabels[name] ?? name),
            mine: this.#shown(name, mine),
            theirs: this.#shown(name, theirs)
          }))
        )
    })
    return saved !== null
  }

  /** Returns the value of a field as the form shows it. */
  #shown(name: string, value: unknown): string {
    if (name === 'kind') return t(kindRow(value as NotificationKind).words)
    if (name === 'events')
      return eventRows
        .filter(({ event }) => (value as string[]).includes(event))
        .map(({ words }) => t(words))
        .join(', ')
    if (name === 'projectIds') {
      const ids = value as string[]
      return ids.length === 0
        ? t('All projects')
        : ids.map(id => this.#projects?.find(project => project.id === id)?.name ?? id).join(', ')
    }
    return typeof value === 'boolean' ? (value ? t('On') : t('Off')) : String(value)
  }
}

/** The elements that a page registers for the form. */
export const elements = { 'svc-notification-target': SvcNotificationTarget, 'svc-conflict': SvcConflict }
