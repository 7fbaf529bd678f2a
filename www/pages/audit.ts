import type { TokenList } from '../../lib/model/access.js'
import type { AuditEntry } from '../../lib/model/audit.js'
import type { ShownProject as Project } from '../../lib/model/project.js'
import { css } from '../elements/element.js'
import { html, icon, keyed, type Template } from '../dom/html.js'
import { addressWords, clockTimeWords, dateWords, exactWords, roleWords } from '../elements/base/words.js'
import { roomTabs } from './page.js'
import { FilteredPage } from './filtered-page.js'
import { type AuditSight, type AuditWitness, witnessOf } from '../state/audit-witness.js'
import { loaded, type Resource, staleLine } from '../state/resource.js'
import { serverNow } from '../server/client.js'
import { isRole, lackOf, may } from '../state/session.js'
import { countWords, t, actorWords } from '../words/t.js'
import { actionRows, actionWords, detailParts, detailWords } from '../audit-words.js'

const pageSize = 100
/** Lists with more entries are not refreshed. As many are loaded by “Load more”. */
const mostRefreshed = 500

interface Shown {
  items: AuditEntry[]
  /** Whether the last entry is loaded. */
  isWhole: boolean
}

/** The audit log, newest first. The query `action`, `project`, `token` and `days` filter it. */
export class AuditPage extends FilteredPage<Shown> {
  static override sheet = css`
    svc-page-audit {
      .filters select { width: auto; max-width: 260px; }
      .day { margin: 8px 0 -4px; font-size: var(--size-13); font-weight: 600; color: var(--muted); }
      .entries > li { content-visibility: auto; contain-intrinsic-size: auto var(--row); }
      .entries > li + li { border-top: 1px solid var(--line); }
      .entries summary {
        display: grid;
        grid-template-columns: 72px 176px minmax(0, 1fr) minmax(0, 120px) 70px minmax(0, 110px);
        gap: 2px 16px;
        align-items: baseline;
        min-height: var(--row);
        padding: 8px 16px;
        cursor: pointer;
        list-style: none;
      }
      .entries summary::-webkit-details-marker { display: none; }
      .entries summary:hover { background: var(--hover); }
      .opened { display: grid; gap: 10px; padding: 4px 16px 14px 104px; overflow-wrap: anywhere; }
      .changes { display: grid; gap: 4px; }
      .changes li { display: grid; grid-template-columns: minmax(0, 220px) minmax(0, 1fr); gap: 2px 16px; }
      .changes li > :first-child, .opened dt { color: var(--muted); }
      .opened dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: 2px 16px; }
      .entries time, .entries .who, .entries .role, .entries .where { color: var(--muted); font-size: var(--size-13); }
      .entries b { display: flex; gap: 6px; align-items: baseline; font-weight: 500; }
      .entries b .icon { align-self: center; color: var(--failure); }
      .entries .failed { color: var(--failure); font-size: var(--size-12); font-weight: 600; }
      .entries .what { overflow-wrap: anywhere; }
      .entries .where { text-align: right; }
      .sight { display: flex; gap: 10px; align-items: center; padding: 12px 16px; color: var(--failure); }
      .sight p { display: grid; gap: 2px; flex: 1; }
      .more { display: flex; justify-content: space-between; align-items: center; gap: 16px; }

      @media print {
        .entries .cut { overflow: visible; white-space: normal; overflow-wrap: anywhere; }
        .entries summary { grid-template-columns: 80px minmax(0, 1.1fr) minmax(0, 1.6fr) minmax(0, 1fr) 60px minmax(0, 100px); font-size: var(--size-12); }
        .entries .what { grid-column: auto; }
        .entries time, .entries b { grid-column: auto; grid-row: auto; }
      }

      @media screen and (max-width: 719px) {
        .sight { flex-wrap: wrap; }
        .sight p { flex-basis: 70%; }
        .sight button { margin-left: auto; }
        .filters select { flex: 1 1 40%; min-width: 0; }
        .entries summary { grid-template-columns: minmax(0, 1fr) auto; padding: 10px 16px; }
        .opened { padding-left: 16px; }
        .changes li { grid-template-columns: minmax(0, 1fr); }
        .entries time { grid-column: 2; grid-row: 1; }
        .entries b { grid-column: 1; grid-row: 1; }
        .entries .what { grid-column: 1 / 3; }
        .entries .role { text-align: right; }
        .entries .where { grid-column: 1 / 3; text-align: left; }
      }
    }
  `

  protected readonly address = 'audit'
  #projects!: Resource<Project[]>
  /** The named tokens, if the user may see them. */
  #tokens: Resource<TokenList> | undefined
  #witness!: AuditWitness
  #sight!: Resource<AuditSight | null>
  /** The entries that were opened. */
  readonly #opened = new Set<string>()

  protected override connected(): void {
    this.entitle(t('Audit log'), [{ words: t('System'), address: 'system' }, { words: t('Audit log') }])
    this.#projects = this.resource(signal => this.context.client.call('GET /api/projects', { signal }))
    if (may('tokens')) this.#tokens = this.resource(signal => this.context.client.call('GET /api/tokens', { signal }))
    this.#witness = witnessOf(this.context.client)
    this.#sight = this.resource(() => this.#witness.look())
    this.begin()
    this.follow(['audit'], () => {
      if (this.isLoadingMore) return false
      if (this.#knownCount() < mostRefreshed) void this.shown.load()
      return true
    })
  }

  #knownCount(): number {
    return this.shown.value?.items.length ?? 0
  }

  protected load(signal: AbortSignal): Promise<Shown> {
    return this.#read(undefined, Math.max(pageSize, this.#knownCount() + 1), signal)
  }

  async #read(before: string | undefined, limit: number, signal: AbortSignal): Promise<Shown> {
    const { query } = this.place
    const sought = Math.min(mostRefreshed, limit)
    const { items } = await this.context.client.call('GET /api/audit', {
      query: {
        action: query.get('action') ?? undefined,
        projectId: query.get('project') ?? undefined,
        tokenId: query.get('token') ?? undefined,
        since: sinceOf(query.get('days')),
        limit: sought,
        before
      },
      signal
    })
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
          ${this.select('project', { label: t('Filter by project'), all: t('All projects'), options: projects })}
          ${this.#tokenSelect()}
          ${this.select('days', {
            label: t('Filter by period'),
            all: t('Any time'),
            options: periods.map(({ value, words }) => ({ value, words: t(words) }))
          })}
          ${this.select('action', {
            label: t('Filter by action'),
            all: t('All actions'),
            options: isOther ? [...known, { value: action, words: action }] : known
          })}
        </div>
      </div>
      ${roomTabs('system', 'audit')}
      ${staleLine(this.shown)}
      ${scopeLine((this.#projects.value ?? []).map(({ name }) => name))}
      ${this.#sightLine(this.#sight.value)}
      ${loaded(this.shown, 'the audit log', shown => this.#list(shown))}`
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

  /** Shows the tokens to choose from: all of them, or at least the chosen one and those of the entries. */
  #tokenSelect(): Template | null {
    const chosen = this.place.query.get('token')
    const names = new Map(
      (this.shown.value?.items ?? []).flatMap(({ tokenId, tokenName }) =>
        tokenId === null ? [] : [[tokenId, tokenName ?? tokenId]]
      )
    )
    for (const { id, name } of this.#tokens?.value?.items ?? []) names.set(id, name)
    if (chosen !== null && !names.has(chosen)) names.set(chosen, chosen)
    if (names.size === 0) return null
    const options = [...names]
      .map(([value, words]) => ({ value, words }))
      .sort((a, b) => a.words.localeCompare(b.words))
    return this.select('token', { label: t('Filter by token'), all: t('All tokens'), options })
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
    const open = (id: string): void => {
      this.#opened.add(id)
      this.update()
    }
    return html`
      <div class="section">
        ${daysOf(items).map(({ day, entries }) =>
          keyed(
            day,
            html`
              <h2 class="day">${day}</h2>
              <ul class="card entries" aria-label="${day}">${entries.map(entry =>
                keyed(entry.id, entryRow(entry, names, this.#opened.has(entry.id) ? null : open))
              )}</ul>`
          )
        )}
        <div class="more">
          <p class="muted small number">${countWords(items.length, 'line')}</p>
          ${isWhole ? null : this.moreButton(() => this.#more(items))}
        </div>
      </div>`
  }

  #more(items: AuditEntry[]): Promise<void> {
    return this.extend(async () => {
      const next = await this.#read(items.at(-1)?.id, mostRefreshed, this.signal)
      return { items: [...items, ...next.items], isWhole: next.isWhole }
    })
  }
}

/** Says which entries a token sees that does not see all. An operator of some projects sees no others. */
function scopeLine(projects: readonly string[]): Template | null {
  const lack = lackOf('audit')
  if (lack === null) return null
  const words =
    lack === 'role'
      ? t('You see the entries of your own token. An operator sees those of others.')
      : t('You see the entries of your own token and of your projects: {projects}', { projects: projects.join(', ') })
  return html`<p class="muted small anywhere">${words}</p>`
}

/** Splits entries, the newest first, by the day of the reader. */
function daysOf(items: readonly AuditEntry[]): Array<{ day: string; entries: AuditEntry[] }> {
  const days = new Map<string, AuditEntry[]>()
  for (const entry of items) {
    const day = dateWords(entry.at)
    const entries = days.get(day)
    if (entries === undefined) days.set(day, [entry])
    else entries.push(entry)
  }
  return [...days].map(([day, entries]) => ({ day, entries }))
}

/** Returns when a period begins; undefined: the whole log. */
function sinceOf(days: string | null): string | undefined {
  if (days === null || !/^\d{1,4}$/.test(days)) return undefined
  return new Date(serverNow() - Number(days) * 86_400_000).toISOString()
}

/** The periods to choose from, in days. */
const periods = [
  { value: '1', words: 'Last 24 hours' },
  { value: '7', words: 'Last 7 days' },
  { value: '30', words: 'Last 30 days' },
  { value: '90', words: 'Last 90 days' }
] as const

/**
 * An entry on one line. Opened by a click or Enter, it shows its changes, ids and address, which are not in the page before.
 * `open` is null once it was opened.
 */
function entryRow(
  entry: AuditEntry,
  names: ReadonlyMap<string, string>,
  open: ((id: string) => void) | null
): Template {
  const address = addressWords(entry.ip, entry.claimedIp)
  const who = entry.tokenId === null ? actorWords(entry.actor, id => names.get(id)) : (entry.tokenName ?? entry.tokenId)
  return html`
    <li>
      <details @toggle="${() => open?.(entry.id)}">
        <summary>
          <time datetime="${entry.at}" title="${exactWords(entry.at)}">${clockTimeWords(entry.at)}</time>
          <b>
            ${entry.ok ? null : icon('failed')}
            <span class="cut">${actionWords(entry.action)}</span>
            ${entry.ok ? null : html`<span class="failed">${t('Failed')}</span>`}
          </b>
          <span class="what small cut" translate="no">${whatOf(entry, names)}</span>
          <span class="who cut" title="${entry.actor}" translate="no">${who}</span>
          <span class="role">${isRole(entry.role) ? t(roleWords[entry.role]) : null}</span>
          <span class="where cut" title="${address}">${address}</span>
        </summary>
        ${open === null ? moreOf(entry, address, names) : null}
      </details>
    </li>`
}

/** Shows what the line has no room for. The links are here: a line that opens is one control. */
function moreOf(entry: AuditEntry, address: string | null, names: ReadonlyMap<string, string>): Template {
  const { projectId, target } = entry
  const { subject, changes } = detailParts(entry.action, entry.detail ?? '')
  const facts = [
    [t('Time'), exactWords(entry.at)],
    [t('Detail'), subject],
    [t('Address'), address],
    [t('Token'), tokenOf(entry)],
    [t('Target'), target === null || target === projectId ? target : linked(target)],
    [
      t('Project'),
      projectId === null ? null : html`<a href="projects/${projectId}">${names.get(projectId) ?? projectId}</a>`
    ],
    [t('Session'), entry.sessionId],
    [t('Action'), entry.action],
    [t('Number'), entry.seq === null ? null : String(entry.seq)],
    [t('Entry'), entry.id]
  ] as const
  return html`
    <div class="opened small" translate="no">
      ${
        changes.length === 0
          ? null
          : html`<ul class="changes" aria-label="${t('Changes')}">${changes.map(
              ({ field, from, to }) =>
                html`<li><span>${field}</span><span>${from === null ? null : html`<s>${from}</s> → `}${to}</span></li>`
            )}</ul>`
      }
      <dl>${facts.map(([name, value]) => (value === null || value === '' ? null : html`<dt>${name}</dt><dd>${value}</dd>`))}</dl>
    </div>`
}

/** Returns the object of an entry: a project by its name, anything else as it is stored. */
function whatOf({ action, projectId, target, detail }: AuditEntry, names: ReadonlyMap<string, string>): string {
  const name = projectId === null ? undefined : (names.get(projectId) ?? projectId)
  const rest = target === projectId ? null : target
  // The name of the project is there already.
  const words = detailWords(action, detail ?? '').replace(name === undefined ? '' : `${name}; `, '')
  const parts = [name ?? null, rest, words === '' || words === name ? null : words]
  return parts.filter(part => part !== null).join(' · ')
}

/** The pages of what an entry can be about, by the beginning of its id. */
const pagesOf: Readonly<Record<string, string>> = { dep: 'deployments', node: 'nodes', ro: 'rollouts' }

function linked(target: string): Template {
  const page = pagesOf[target.slice(0, Math.max(0, target.indexOf('_')))]
  if (page === undefined) return html`<code>${target}</code>`
  return html`<a href="${page}/${target}"><code>${target}</code></a>`
}

/** Links the token of an entry to all of its entries. */
function tokenOf({ tokenId, tokenName }: AuditEntry): Template | null {
  if (tokenId === null) return null
  return html`<a href="audit?token=${tokenId}">${tokenName ?? tokenId}</a>`
}

export const elements = { 'svc-page-audit': AuditPage }
