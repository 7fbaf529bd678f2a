import type { TokenList } from '../../lib/model/access.js'
import type { AuditEntry } from '../../lib/model/audit.js'
import type { ShownProject as Project } from '../../lib/model/project.js'
import { css } from '../elements/element.js'
import { html, icon, keyed, type Template } from '../dom/html.js'
import { actorName, addressWords, roleWords } from '../elements/base/words.js'
import { Page, roomTabs } from './page.js'
import type { AuditSight, AuditWitness } from '../state/audit-witness.js'
import { createResource, loaded, type Resource, staleLine } from '../state/resource.js'
import { SvcTime } from '../elements/base/facts.js'
import { type AdminCalls, createAdminCalls, createTokenCalls } from '../server/admin-calls.js'
import { isRole, may } from '../state/session.js'
import { countWords, t } from '../words/t.js'
import { detailWords } from '../audit-words.js'

/* Labels of the actions of the audit log. Pure. */

/** The actions that the server records, by kind. `words` is English and passed to t(). */
export const actionRows: ReadonlyArray<{ action: string; words: string }> = [
  { action: 'auth.login', words: 'Signed in' },
  { action: 'auth.login_failed', words: 'Sign-in refused' },
  { action: 'auth.logout', words: 'Signed out' },
  { action: 'auth.prove', words: 'Token given again' },
  { action: 'session.revoke', words: 'Session ended' },
  { action: 'auth.change_token', words: 'Admin token changed' },
  { action: 'auth.reset_token', words: 'Admin token reset' },
  { action: 'token.create', words: 'Token created' },
  { action: 'token.update', words: 'Token changed' },
  { action: 'token.rotate', words: 'Token rotated' },
  { action: 'token.revoke', words: 'Token revoked' },
  { action: 'second_factor.enrol', words: 'Second factor added' },
  { action: 'second_factor.lock', words: 'Second factor locked' },
  { action: 'second_factor.recovery', words: 'Recovery code used' },
  { action: 'second_factor.remove', words: 'Second factor removed' },
  { action: 'token.expiring', words: 'Reminder: token expires soon' },
  { action: 'project.create', words: 'Project created' },
  { action: 'project.update', words: 'Project changed' },
  { action: 'project.delete', words: 'Project deleted' },
  { action: 'project.variables', words: 'Variables changed' },
  { action: 'project.regenerate_token', words: 'Deploy token regenerated' },
  { action: 'project.lock', words: 'Project locked' },
  { action: 'project.unlock', words: 'Project unlocked' },
  { action: 'project.maintenance_on', words: 'Maintenance begun' },
  { action: 'project.maintenance_off', words: 'Maintenance ended' },
  { action: 'server.lock', words: 'Server locked' },
  { action: 'server.unlock', words: 'Server unlocked' },
  { action: 'deployment.upload', words: 'Archive pushed' },
  { action: 'deployment.end', words: 'Deployment ended' },
  { action: 'deployment.rollback', words: 'Rollback started' },
  { action: 'deployment.repair', words: 'Repair started' },
  { action: 'deployment.cancel', words: 'Deployment cancelled' },
  { action: 'deployment.confirm', words: 'Deployment confirmed' },
  { action: 'deployment.revert', words: 'Deployment reverted' },
  { action: 'deployment.revert_failed', words: 'Revert failed' },
  { action: 'deployment.mark_status', words: 'Deployment marked' },
  { action: 'deployment.delete_archive', words: 'Archive deleted' },
  { action: 'deployment.give_up', words: 'Target given up' },
  { action: 'deploy.post_deploy_failed', words: 'Post-deploy script failed' },
  { action: 'node.enroll', words: 'Node enrolled' },
  { action: 'node.update', words: 'Node changed' },
  { action: 'node.drain', words: 'Node drained' },
  { action: 'node.undrain', words: 'Node takes part again' },
  { action: 'node.shared', words: 'Two machines use one identity' },
  { action: 'node.single', words: 'One machine uses the identity again' },
  { action: 'node.forget', words: 'Node forgotten' },
  { action: 'enrollment.create', words: 'Enrollment token created' },
  { action: 'enrollment.revoke', words: 'Enrollment token revoked' },
  { action: 'fleet.history', words: 'Nodes told that the database of the hub was set back' },
  { action: 'placement.add', words: 'Project placed on a node' },
  { action: 'placement.remove', words: 'Project removed from a node' },
  { action: 'rollout.start', words: 'Rollout started' },
  { action: 'rollout.halt', words: 'Rollout halted' },
  { action: 'rollout.resume', words: 'Rollout resumed' },
  { action: 'rollout.revert', words: 'Rollout reverted' },
  { action: 'rollout.approve', words: 'Wave approved' },
  { action: 'category.create', words: 'Category created' },
  { action: 'category.update', words: 'Category changed' },
  { action: 'category.delete', words: 'Category deleted' },
  { action: 'tag.create', words: 'Tag created' },
  { action: 'tag.update', words: 'Tag changed' },
  { action: 'tag.delete', words: 'Tag deleted' },
  { action: 'log_source.create', words: 'Log file added' },
  { action: 'log_source.update', words: 'Log file changed' },
  { action: 'log_source.delete', words: 'Log file removed' },
  { action: 'notification_target.create', words: 'Notification target added' },
  { action: 'notification_target.update', words: 'Notification target changed' },
  { action: 'notification_target.delete', words: 'Notification target deleted' },
  { action: 'settings.update', words: 'Setting changed' },
  { action: 'storage.clean', words: 'Storage cleaned up' },
  { action: 'migration.export', words: 'Package exported' },
  { action: 'migration.import', words: 'Package imported' },
  { action: 'backup.create', words: 'Backup created' },
  { action: 'audit.export', words: 'Audit log exported' },
  { action: 'audit.rotate_key', words: 'Key of the audit log replaced' },
  { action: 'cluster.rekey', words: 'Key of the cluster replaced' },
  { action: 'audit.trimmed', words: 'Old entries removed' },
  { action: 'audit.tree_broken', words: 'Audit log damaged' },
  { action: 'webhook.send', words: 'Notification' },
  { action: 'terminal.open', words: 'Terminal opened' },
  { action: 'terminal.close', words: 'Terminal closed' }
]

const pageSize = 100
/** Lists with more entries are not refreshed. */
const mostRefreshed = 500

interface Shown {
  items: AuditEntry[]
  /** Whether the last entry is loaded. */
  isWhole: boolean
}

/** The audit log, newest first. The query `action`, `project` and `token` filter it. */
export class AuditPage extends Page {
  static override sheet = css`
    svc-page-audit {
      .filters { display: flex; flex-wrap: wrap; gap: 8px; }
      .filters select { width: auto; max-width: 260px; }
      .entries li {
        display: grid;
        grid-template-columns: 132px minmax(0, 1.1fr) minmax(0, 1.6fr) minmax(0, 1fr) 70px minmax(0, 130px);
        gap: 2px 16px;
        align-items: baseline;
        min-height: var(--row);
        padding: 8px 16px;
      }
      .entries li + li { border-top: 1px solid var(--line); }
      .entries svc-time, .entries .who, .entries .role, .entries .where { color: var(--muted); font-size: var(--size-13); }
      .entries b { display: flex; gap: 6px; align-items: baseline; font-weight: 500; }
      .entries b .icon { align-self: center; color: var(--failure); }
      .entries .failed { color: var(--failure); font-size: var(--size-12); font-weight: 600; }
      .entries .what { overflow-wrap: anywhere; }
      .entries .what a { text-decoration: underline; }
      .entries .where { text-align: right; }
      .sight { display: flex; gap: 10px; align-items: center; padding: 12px 16px; color: var(--failure); }
      .sight p { display: grid; gap: 2px; flex: 1; }
      .more { display: flex; justify-content: space-between; align-items: center; gap: 16px; }

      @media print {
        .entries .cut { overflow: visible; white-space: normal; overflow-wrap: anywhere; }
        .entries li { grid-template-columns: 120px minmax(0, 1.1fr) minmax(0, 1.6fr) minmax(0, 1fr) 60px minmax(0, 100px); font-size: var(--size-12); }
        .entries .what { grid-column: auto; }
        .entries svc-time, .entries b { grid-column: auto; grid-row: auto; }
      }

      @media screen and (max-width: 719px) {
        .filters { flex-basis: 100%; }
        .sight { flex-wrap: wrap; }
        .sight p { flex-basis: 70%; }
        .sight button { margin-left: auto; }
        .filters select { flex: 1; min-width: 0; }
        .entries li { grid-template-columns: minmax(0, 1fr) auto; padding: 10px 16px; }
        .entries svc-time { grid-column: 2; grid-row: 1; }
        .entries b { grid-column: 1; grid-row: 1; }
        .entries .what { grid-column: 1 / 3; }
        .entries .role { text-align: right; }
        .entries .where { grid-column: 1 / 3; text-align: left; }
      }
    }
  `

  #calls!: AdminCalls
  #shown!: Resource<Shown>
  #projects!: Resource<Project[]>
  /** The named tokens, if the user may see them. */
  #tokens: Resource<TokenList> | undefined
  #witness!: AuditWitness
  #sight!: Resource<AuditSight | null>
  #filter = ''
  #isLoadingMore = false

  protected override connected(): void {
    this.entitle(t('Audit log'), [{ words: t('System'), address: 'system' }, { words: t('Audit log') }])
    this.#calls = createAdminCalls(this.context.client)
    this.#projects = this.resource(signal => this.context.calls.projects(signal))
    if (may('tokens')) this.#tokens = this.resource(signal => createTokenCalls(this.context.client).list(signal))
    this.#witness = this.#calls.auditWitness()
    this.#sight = this.resource(() => this.#witness.look())
    this.#begin()
    this.follow(['audit'], () => {
      if (this.#isLoadingMore) return false
      if (this.#knownCount() < mostRefreshed) void this.#shown.load()
      return true
    })
  }

  protected override moved(): void {
    if (this.#filter !== this.place.query.toString()) this.#begin()
  }

  #begin(): void {
    const filter = (this.#filter = this.place.query.toString())
    this.#isLoadingMore = false
    this.#shown = createResource<Shown>({
      load: signal => this.#load(undefined, Math.max(pageSize, this.#knownCount() + 1), signal),
      onChange: () => {
        if (filter === this.#filter) this.update()
      },
      signal: this.signal
    })
    void this.#shown.load()
  }

  #knownCount(): number {
    return this.#shown.value?.items.length ?? 0
  }

  async #load(before: string | undefined, limit: number, signal?: AbortSignal): Promise<Shown> {
    const { query } = this.place
    const sought = Math.min(mostRefreshed, limit)
    const items = await this.#calls.audit(
      {
        action: query.get('action') ?? undefined,
        projectId: query.get('project') ?? undefined,
        tokenId: query.get('token') ?? undefined,
        limit: sought,
        before
      },
      signal
    )
    return { items, isWhole: items.length < sought }
  }

  protected override view(): Template {
    const action = this.place.query.get('action') ?? ''
    const known = actionRows.map(({ action, words }) => ({ value: action, words: t(words) }))
    const isOther = action !== '' && !known.some(({ value }) => value === action)
    const projects = (this.#projects.value ?? []).map(({ id, name }) => ({ value: id, words: name }))
    return html`
      <div class="page-head">
        <div><h1>${t('Audit log')}</h1></div>
        <div class="filters">
          ${this.#select('project', { label: t('Filter by project'), all: t('All projects'), options: projects })}
          ${this.#tokenSelect()}
          ${this.#select('action', {
            label: t('Filter by action'),
            all: t('All actions'),
            options: isOther ? [...known, { value: action, words: action }] : known
          })}
        </div>
      </div>
      ${roomTabs('system', 'audit')}
      ${staleLine(this.#shown)}
      ${this.#sightLine(this.#sight.value)}
      ${loaded(this.#shown, 'the audit log', shown => this.#list(shown))}`
  }

  /** Says whether the log still begins with the entries that this browser saw. */
  #sightLine(sight: AuditSight | null | undefined): Template | null {
    if (sight === null || sight === undefined || (sight.fault === null && sight.size === 0)) return null
    const values = { before: sight.before, now: sight.now }
    if (sight.fault === null)
      return html`
        <p class="muted small">${t('The log still begins with the {before} entries that this browser saw.', values)}</p>`
    return html`
      <div class="sight card" role="alert">
        ${icon('warning')}
        <p>
          <span>${t(sight.fault, values)}</span>
          <span>${t('Compare an export with a checkpoint from elsewhere: “svc audit verify --anchor”.')}</span>
        </p>
        <button type="button" @click="${() => this.#accept()}">${t('Accept this log')}</button>
      </div>`
  }

  /** Begins again with the log as it is now, for example after a backup was restored. */
  #accept(): void {
    this.#witness.forget()
    void this.#sight.load()
  }

  #select(name: string, { label, all, options }: Choice): Template {
    const chosen = this.place.query.get(name) ?? ''
    const choose = (event: Event): void => this.#choose(name, (event.currentTarget as HTMLSelectElement).value)
    return html`
      <select aria-label="${label}" @change="${choose}">
        <option value="" .selected="${chosen === ''}">${all}</option>
        ${options.map(({ value, words }) =>
          keyed(
            value,
            html`
          <option value="${value}" .selected="${value === chosen}">${words}</option>`
          )
        )}
      </select>`
  }

  /** Shows the tokens to choose from: all of them, or at least the chosen one and those of the entries. */
  #tokenSelect(): Template | null {
    const chosen = this.place.query.get('token')
    const names = new Map(
      (this.#shown.value?.items ?? []).flatMap(({ tokenId, tokenName }) =>
        tokenId === null ? [] : [[tokenId, tokenName ?? tokenId]]
      )
    )
    for (const { id, name } of this.#tokens?.value?.items ?? []) names.set(id, name)
    if (chosen !== null && !names.has(chosen)) names.set(chosen, chosen)
    if (names.size === 0) return null
    const options = [...names]
      .map(([value, words]) => ({ value, words }))
      .sort((a, b) => a.words.localeCompare(b.words))
    return this.#select('token', { label: t('Filter by token'), all: t('All tokens'), options })
  }

  #choose(name: string, value: string): void {
    const query = new URLSearchParams(this.place.query)
    if (value === '') query.delete(name)
    else query.set(name, value)
    this.context.go(query.size === 0 ? 'audit' : `audit?${query}`)
  }

  #list({ items, isWhole }: Shown): Template {
    if (items.length === 0) {
      return html`
        <div class="card">
          <div class="state">
            <h2>${this.place.query.size === 0 ? t('No entries yet') : t('No matches')}</h2>
            <p class="muted">${t('Each sign-in, change and deployment is listed here with its user and address.')}</p>
            ${this.place.query.size === 0 ? null : html`<a class="button" href="audit">${t('Show all')}</a>`}
          </div>
        </div>`
    }
    const names = new Map((this.#projects.value ?? []).map(({ id, name }) => [id, name]))
    return html`
      <div class="section">
        <ul class="card entries" aria-label="${t('Audit log')}">${items.map(entry => keyed(entry.id, entryRow(entry, names)))}</ul>
        <div class="more">
          <p class="muted small number">${countWords(items.length, 'line')}</p>
          ${
            isWhole
              ? null
              : html`
              <button type="button" disabled="${this.#isLoadingMore}" @click="${() => void this.#more(items)}">
                ${this.#isLoadingMore ? t('Loading…') : t('Load more')}
              </button>`
          }
        </div>
      </div>`
  }

  async #more(items: AuditEntry[]): Promise<void> {
    const resource = this.#shown
    this.#isLoadingMore = true
    this.update()
    await this.attempt(async () => {
      const next = await this.#load(items.at(-1)?.id, pageSize, this.signal)
      if (resource === this.#shown) resource.set({ items: [...items, ...next.items], isWhole: next.isWhole })
    })
    this.#isLoadingMore = false
    this.update()
  }
}

interface Choice {
  label: string
  all: string
  options: ReadonlyArray<{ value: string; words: string }>
}

function entryRow(entry: AuditEntry, names: ReadonlyMap<string, string>): Template {
  const address = addressWords(entry.ip, entry.claimedIp)
  const words = actionRows.find(({ action }) => action === entry.action)?.words
  return html`
    <li>
      <svc-time at="${entry.at}"></svc-time>
      <b title="${entry.action}">
        ${entry.ok ? null : icon('failed')}
        <span class="cut">${words === undefined ? entry.action : t(words)}</span>
        ${entry.ok ? null : html`<span class="failed">${t('Failed')}</span>`}
      </b>
      <span class="what small" translate="no">${whatOf(entry, names)}</span>
      <span class="who cut" title="${entry.actor}" translate="no">${tokenOf(entry) ?? actorOf(entry.actor, names)}</span>
      <span class="role">${isRole(entry.role) ? t(roleWords[entry.role]) : null}</span>
      <span class="where cut" title="${address}">${address}</span>
    </li>`
}

/** Shows the object of an entry: a project by its name, a deployment as a link, anything else as it is stored. */
function whatOf({ action, projectId, target, detail }: AuditEntry, names: ReadonlyMap<string, string>): Template {
  const name = projectId === null ? undefined : (names.get(projectId) ?? projectId)
  const ofProject = name === undefined ? null : html`<a href="projects/${projectId}">${name}</a>`
  const rest = target === null || target === projectId ? null : linked(target)
  const parts = [ofProject, rest, detail === null || detail === name ? null : detailOf(action, detail)].filter(
    part => part !== null
  )
  return html`${parts.map((part, index) => html`${index === 0 ? '' : ' · '}${part}`)}`
}

/** The pages of what an entry can be about, by the beginning of its id. */
const pagesOf: Readonly<Record<string, string>> = { dep: 'deployments', node: 'nodes', ro: 'rollouts' }

function linked(target: string): Template {
  const page = pagesOf[target.slice(0, Math.max(0, target.indexOf('_')))]
  if (page === undefined) return html`<code>${target}</code>`
  return html`<a href="${page}/${target}"><code>${target}</code></a>`
}

/** Shows the detail of an entry. The original text of the server is the tooltip if it differs. */
function detailOf(action: string, detail: string): unknown {
  const words = detailWords(action, detail)
  return words === detail ? detail : html`<span title="${detail}">${words}</span>`
}

/** Links the token of an entry to all of its entries. */
function tokenOf({ tokenId, tokenName }: AuditEntry): Template | null {
  if (tokenId === null) return null
  return html`<a href="audit?token=${tokenId}">${tokenName ?? tokenId}</a>`
}

function actorOf(actor: string, names: ReadonlyMap<string, string>): string {
  const id = actor.startsWith('project:') ? actor.slice('project:'.length) : actor
  return names.has(id) ? t('Deploy token of {name}', { name: names.get(id) as string }) : actorName(actor)
}

/** The elements of this page. */
export const elements = { 'svc-page-audit': AuditPage, 'svc-time': SvcTime }
