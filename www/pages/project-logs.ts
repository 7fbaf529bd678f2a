import { type LogPlace, type Said, css } from '../elements/element.js'
import type { ListedPlacement } from '../../lib/model/node.js'
import type { LogSource } from '../../lib/model/log-source.js'
import type { ShownProject as Project } from '../../lib/model/project.js'
import { panelPath } from '../dom/address.js'
import { html, icon, type Template } from '../dom/html.js'
import { isUnknown, missing, missingProject, Page, onNodes, projectTabs } from './page.js'
import { loaded, type Resource, staleLine } from '../state/resource.js'
import { SvcDialog } from '../elements/base/form.js'
import { SvcLogSearch } from '../elements/logs/svc-log-search.js'
import { SvcLogSources } from '../elements/logs/svc-log-sources.js'
import { levelOf } from '../elements/logs/level-filter.js'
import { isNothing, type Sought } from '../state/log-search.js'
import { type MergedHit, MergedSearch } from '../state/merged-log.js'
import { countWords, t } from '../words/t.js'
import { hasFleet, isLookingAtNode, may } from '../state/session.js'

const loadFile = () => import('../elements/logs/svc-log-file.js')

/**
 * The log files of a project, or the file that the path names. Those of a placed project are on its nodes; the files that
 * this server has for it follow, if there are any. Query of the list: `add` opens the dialog that adds
 * files; `q`, `regex`, `cased`, `level`, `since` and `until` search in all files. Query of a file: the same, and `at`,
 * the offset of a line.
 */
export class ProjectLogsPage extends Page {
  static override sheet = css`
    svc-page-project-logs {
      /* A log uses the whole width. */
      svc-app > .frame > .content > main > &:has(svc-log-file) { max-width: none; gap: 16px; }
      .viewer { height: calc(100dvh - 260px); min-height: 360px; overflow: clip; }
      .all svc-log-search { max-height: 70dvh; }
      .back { display: flex; flex-wrap: wrap; align-items: baseline; gap: 4px 16px; min-width: 0; }
      .back code { min-width: 0; overflow-wrap: anywhere; color: var(--muted); }
      @media (max-width: 719px) { .viewer { height: calc(100dvh - 250px); min-height: 75dvh; } }
    }
  `

  #project!: Resource<Project>
  #sources!: Resource<LogSource[]>
  /** Null on a server without nodes. */
  #placements: Resource<ListedPlacement[]> | null = null
  #isFormLoaded = false
  #search: MergedSearch | null = null
  /** The last search, to avoid repeating it. */
  #searched = ''

  get #projectId(): string {
    return this.place.params['id'] as string
  }

  protected override connected(): void {
    const { client } = this.context
    this.entitle(t('Logs'), [{ words: t('Projects'), address: 'projects' }])
    this.#project = this.resource(signal => client.call('GET /api/projects/:id', { id: this.#projectId, signal }))
    this.#sources = this.resource(
      async signal =>
        (await this.context.client.call('GET /api/projects/:id/log-sources', { id: this.#projectId, signal })).items
    )
    if (hasFleet() && !isLookingAtNode()) {
      this.#placements = this.resource(
        async signal =>
          (await client.call('GET /api/projects/:id/placements', { id: this.#projectId, signal })).placements
      )
    }
    this.signal.addEventListener('abort', () => this.#search?.cancel())
    this.moved()
  }

  protected override moved(): void {
    if (this.place.params['sourceId'] !== undefined) {
      this.#search?.cancel()
      this.#searched = ''
    }
    if (this.#isAdding && !this.#isFormLoaded) void this.attempt(() => this.#loadForm())
  }

  async #loadForm(): Promise<void> {
    this.context.define((await import('../elements/logs/svc-log-add.js')).elements)
    this.#isFormLoaded = true
  }

  get #isAdding(): boolean {
    return this.place.query.has('add') && may('add_logs')
  }

  protected override view(): Template {
    if (this.#project.value === undefined && isUnknown(this.#project.error)) return missingProject(this.#projectId)
    return html`${loaded(this.#project, 'the project', project => {
      const sourceId = this.place.params['sourceId']
      return sourceId === undefined ? this.#list(project) : this.#file(project, sourceId)
    })}`
  }

  #list(project: Project): Template {
    const address = panelPath`projects/${project.id}`
    this.entitle(`${project.name} · ${t('logs')}`, [
      { words: t('Projects'), address: 'projects' },
      { words: project.name, address },
      { words: t('Logs') }
    ])
    return html`
      <div class="page-head">
        <div><h1 translate="no">${project.name}</h1></div>
        <div class="actions">
        ${
          may('add_logs') && !this.#isPlaced && project.pm2AppName !== null
            ? html`<button type="button" @click="${() => void this.attempt(() => this.#addPm2())}">${icon('plus')}${t('Add PM2 log files')}</button>`
            : null
        }
        ${may('add_logs') && !this.#isPlaced ? html`<a class="button primary" href="${`${address}/logs?add`}">${icon('plus')}${t('Add log files')}</a>` : null}
        </div>
      </div>
      ${this.#tabs(project)}
      ${staleLine(this.#sources)}
      ${this.#placements === null ? this.#here(project) : loaded(this.#placements, 'the nodes', placements => this.#withNodes(project, placements))}
      ${
        this.#isAdding && this.#isFormLoaded
          ? html`
          <svc-dialog heading="${t('Add log files')}" .content="${this.#form(project)}"
            @dialogclose="${() => this.#close()}"></svc-dialog>`
          : null
      }`
  }

  async #addPm2(): Promise<void> {
    this.#added(
      (await this.context.client.call('POST /api/projects/:id/log-sources/pm2', { id: this.#projectId })).items.length
    )
  }

  get #isPlaced(): boolean {
    return (this.#placements?.value?.length ?? 0) > 0
  }

  #tabs({ id }: Project): Template {
    return projectTabs(id, 'logs', { isPlaced: this.#isPlaced })
  }

  #withNodes(project: Project, placements: readonly ListedPlacement[]): Template {
    if (placements.length === 0) return this.#here(project)
    if (this.#sources.value?.length === 0) return onNodes('logs', placements)
    return html`
      ${onNodes('logs', placements)}
      <section class="section"><h2>${t('Log files on this server')}</h2>${this.#here(project)}</section>`
  }

  /** Shows the log files of this server. */
  #here(project: Project): Template {
    const address = panelPath`projects/${project.id}`
    return html`
      ${this.#sources.value === undefined || this.#sources.value.length < 2 ? null : this.#searchAll(this.#sources.value)}
      <div class="card">
        ${loaded(this.#sources, 'the log files', sources =>
          sources.length === 0
            ? html`
            <div class="state">
              <h2>${t('No log files yet')}</h2>
              <p class="muted">
                ${t('Add the log files of this project, its server or its database. Then follow them live, search them, or view them side by side.')}
              </p>
              ${may('add_logs') ? html`<a class="button" href="${`${address}/logs?add`}">${icon('plus')}${t('Add log files')}</a>` : null}
            </div>`
            : html`
            <svc-log-sources .sources="${sources}" .client="${this.context.client}"
              @sourceschange="${() => void this.#sources.load()}"></svc-log-sources>`
        )}
      </div>`
  }

  /** Shows the search in all files of the project. Hits are links to their files. */
  #searchAll(sources: readonly LogSource[]): Template {
    const sought = soughtOf(this.place.query)
    const ids = sources.map(({ id }) => id).join()
    const wanted = isNothing(sought) ? '' : JSON.stringify([ids, sought])
    if (wanted !== this.#searched) {
      this.#searched = wanted
      this.#search?.cancel()
      this.#search =
        wanted === ''
          ? null
          : new MergedSearch(
              sought,
              sources.map(({ label }) => label)
            )
      void this.#search?.run(
        this.context.client,
        sources.map(({ id }) => id)
      )
    }
    return html`
      <section class="card all" aria-label="${t('Search all these log files')}">
        <svc-log-search .sources="${sources.map(({ label }) => ({ words: label }))}" .search="${this.#search}"
          @logsought="${(event: Event) => this.#seek((event as Said<'logsought'>).sought)}"
          @loghit="${(event: Event) => this.#toHit(sources, (event as Said<'loghit'>).hit as MergedHit)}"></svc-log-search>
      </section>`
  }

  #seek(sought: Sought): void {
    const query = queryOf({ at: null, sought: isNothing(sought) ? null : sought })
    const address = panelPath`projects/${this.#projectId}/logs`
    // Repeat the search, because new lines may match.
    this.#searched = ''
    this.context.go(query.size === 0 ? address : `${address}?${query}`, { isReplacing: true })
  }

  #toHit(sources: readonly LogSource[], { source, offset }: MergedHit): void {
    const query = queryOf({ at: offset, sought: this.#search?.sought ?? null })
    this.context.go(panelPath`projects/${this.#projectId}/logs/${(sources[source] as LogSource).id}?${query}`)
  }

  #form(project: Project): Template {
    return html`
      <svc-log-add .projectId="${project.id}" .start="${'/var/log'}" .client="${this.context.client}"
        @sourcesadded="${(event: Event) => this.#added((event as Said<'sourcesadded'>).count)}"
        @sourcescancel="${() => this.#close()}"></svc-log-add>`
  }

  #close(): void {
    this.context.go(panelPath`projects/${this.#projectId}/logs`, { isReplacing: true })
  }

  #added(count: number): void {
    this.notify(t('{files} added', { files: countWords(count, 'log file') }))
    this.#close()
    void this.#sources.load()
  }

  #file(project: Project, sourceId: string): Template {
    return html`${loaded(this.#sources, 'the log files', sources => {
      const source = sources.find(({ id }) => id === sourceId)
      return source === undefined ? gone(project, sourceId) : this.#viewer(project, source)
    })}`
  }

  #viewer(project: Project, source: LogSource): Template {
    const address = panelPath`projects/${project.id}`
    this.entitle(`${source.label} · ${project.name}`, [
      { words: t('Projects'), address: 'projects' },
      { words: project.name, address },
      { words: t('Logs'), address: `${address}/logs` },
      { words: source.label }
    ])
    return html`
      <div class="page-head">
        <div><h1 translate="no">${source.label}</h1><p class="back"><code translate="no">${source.filePath}</code></p></div>
      </div>
      ${this.#tabs(project)}
      <div class="card viewer">
        ${
          !this.late(loadFile, true)
            ? null
            : html`
            <svc-log-file .source="${source}" .client="${this.context.client}" .connection="${this.context.connection}"
              .place="${placeOf(this.place.query)}"
              @logplace="${(event: Event) => this.#moveTo(source, (event as Said<'logplace'>).place)}"></svc-log-file>`
        }
      </div>`
  }

  #moveTo({ id }: LogSource, place: LogPlace): void {
    const query = queryOf(place)
    const address = panelPath`projects/${this.#projectId}/logs/${id}`
    this.context.go(query.size === 0 ? address : `${address}?${query}`, { isReplacing: true })
  }
}

function placeOf(query: URLSearchParams): LogPlace {
  const at = query.get('at')
  const sought = soughtOf(query)
  return { at: at !== null && /^\d{1,15}$/.test(at) ? Number(at) : null, sought: isNothing(sought) ? null : sought }
}

function soughtOf(query: URLSearchParams): Sought {
  const timeOf = (name: string): number | null => {
    const ms = Date.parse(query.get(name) ?? '')
    return Number.isNaN(ms) ? null : ms
  }
  return {
    q: query.get('q') ?? '',
    isRegex: query.has('regex'),
    ignoresCase: !query.has('cased'),
    level: levelOf(query.get('level')),
    sinceMs: timeOf('since'),
    untilMs: timeOf('until')
  }
}

function queryOf({ at, sought }: LogPlace): URLSearchParams {
  const query = new URLSearchParams()
  if (at !== null) query.set('at', String(at))
  if (sought === null) return query
  const { q, isRegex, ignoresCase, level, sinceMs, untilMs } = sought
  if (q !== '') query.set('q', q)
  if (isRegex) query.set('regex', '1')
  if (!ignoresCase) query.set('cased', '1')
  if (level) query.set('level', level)
  if (typeof sinceMs === 'number') query.set('since', new Date(sinceMs).toISOString())
  if (typeof untilMs === 'number') query.set('until', new Date(untilMs).toISOString())
  return query
}

function gone(project: Project, id: string): Template {
  const list = { address: panelPath`projects/${project.id}/logs`, words: t('Go to log files') }
  return html`
    ${projectTabs(project.id, 'logs')}
    ${missing({ words: t('Log file not found'), id, list })}`
}

export const elements = {
  'svc-page-project-logs': ProjectLogsPage,
  'svc-dialog': SvcDialog,
  'svc-log-search': SvcLogSearch,
  'svc-log-sources': SvcLogSources
}
