import type { LogSource } from '../../lib/model/log-source.js'
import type { ShownProject as Project } from '../../lib/model/project.js'
import { css } from '../elements/element.js'
import { html, icon, keyed, type Template } from '../dom/html.js'
import { kindWords } from '../elements/logs/log-format.js'
import { loaded, type Resource } from '../state/resource.js'
import { t } from '../words/t.js'
import { Page } from './page.js'

/** What shows files is loaded once some are chosen. */
const loadFile = () => import('../elements/logs/svc-log-file.js')
const loadMerged = () => import('../elements/logs/svc-merged-log.js')

/** A project and its log files. */
interface Group {
  project: Project
  sources: readonly LogSource[]
}

const mostSide = 4
const mostMerged = 6

/**
 * The log files of all projects, and several of them side by side or merged by time. Query: `q` filters the list,
 * `source` (repeated) names the shown files, `merged` merges them.
 */
export class LogsPage extends Page {
  static override sheet = css`
    svc-page-logs {
      svc-app > .frame > .content > main > &:has(.viewers) { max-width: none; gap: 16px; }
      .tools { display: flex; flex-wrap: wrap; gap: 8px; align-items: center; }
      .tools search { flex: 0 1 280px; }
      .group > .section-head h2 { min-width: 0; }
      .rows label {
        display: grid;
        grid-template-columns: 16px minmax(0, 1fr) minmax(0, 1fr) 130px 32px;
        align-items: center;
        gap: 0 16px;
        min-height: 44px;
        padding: 4px 12px 4px 16px;
        cursor: pointer;
      }
      .rows li + li { border-top: 1px solid var(--line); }
      .rows label:hover { background: var(--hover); }
      .rows label:has(:checked) { background: var(--accent-quiet); }
      .rows b { font-weight: 500; }
      .rows code { color: var(--muted); direction: rtl; text-align: left; }
      .rows code bdi { unicode-bidi: plaintext; }
      .rows .kind { color: var(--muted); font-size: var(--size-13); }
      .rows a { display: grid; place-items: center; width: 32px; height: 32px; color: var(--muted); }

      .chosen { position: sticky; bottom: 16px; z-index: 3; display: flex; flex-wrap: wrap; align-items: center; gap: 8px; padding: 10px 16px; border-radius: 8px; background: var(--raised); box-shadow: var(--float); }
      .chosen p { flex: 1; min-width: 120px; }

      .viewers { display: grid; grid-auto-columns: minmax(0, 1fr); gap: 12px; height: calc(100dvh - 190px); min-height: 420px; }
      .viewers.two, .viewers.three { grid-auto-flow: column; }
      .viewers.four { grid-template: repeat(2, minmax(0, 1fr)) / repeat(2, minmax(0, 1fr)); }
      .viewers > * { min-height: 0; overflow: clip; }
      .shown { align-items: center; }
      .shown h1 { font-size: var(--size-20); }
      .names { display: flex; flex: 1; flex-wrap: wrap; gap: 8px; min-width: 0; }
      .names li { display: flex; align-items: center; max-width: 100%; padding-left: 10px; border: 1px solid var(--line); border-radius: 99px; font-size: var(--size-13); }
      .names button { min-height: 28px; padding: 0 8px; border: 0; border-radius: 99px; background: none; }

      @media (max-width: 719px) {
        .rows label { grid-template-columns: 16px minmax(0, 1fr) 32px; }
        .rows code { grid-column: 2; grid-row: 2; }
        .rows .kind { display: none; }
        .rows a { grid-column: 3; grid-row: 1 / 3; }
        .tools search { flex: 1 1 100%; }
        .viewers.two, .viewers.three, .viewers.four { grid-auto-flow: row; grid-template: none; grid-auto-rows: 60dvh; height: auto; }
        .chosen { bottom: 72px; }
        .names { order: 1; flex-basis: 100%; }
      }
    }
  `

  #groups!: Resource<Group[]>
  #chosen = new Set<string>()

  protected override connected(): void {
    this.#groups = this.resource(signal => this.#load(signal))
  }

  async #load(signal: AbortSignal): Promise<Group[]> {
    const [projects, sources] = await Promise.all([
      this.context.client.call('GET /api/projects', { signal }),
      this.context.client.call('GET /api/log-sources', { signal }).then(answer => answer.items)
    ])
    const groups = projects.map(project => ({
      project,
      sources: sources.filter(({ projectId }) => projectId === project.id)
    }))
    return groups.filter(({ sources }) => sources.length > 0)
  }

  protected override view(): Template {
    const shown = this.place.query.getAll('source')
    return html`${loaded(this.#groups, 'the log files', groups =>
      shown.length === 0 ? this.#list(groups) : this.#viewers(groups, shown)
    )}`
  }

  #list(groups: readonly Group[]): Template {
    this.entitle(t('Logs'), [{ words: t('Logs') }])
    const query = this.place.query.get('q') ?? ''
    const found = groups
      .map(group => ({ ...group, sources: group.sources.filter(source => matches(group.project, source, query)) }))
      .filter(({ sources }) => sources.length > 0)
    return html`
      <div class="page-head">
        <div><h1>${t('Logs')}</h1></div>
        ${
          groups.length === 0
            ? null
            : html`
            <div class="tools">
              <search>
                ${icon('search')}
                <input type="search" aria-label="${t('Find log files')}" placeholder="${t('Find log files')}" .value="${query}"
                  @input="${(event: Event) => this.#find((event.currentTarget as HTMLInputElement).value)}">
              </search>
            </div>`
        }
      </div>
      ${groups.length === 0 ? empty() : found.length === 0 ? nothingFound(query, () => this.#find('')) : null}
      ${found.map(group => keyed(group.project.id, this.#group(group)))}
      ${this.#chosen.size === 0 ? null : this.#choice()}`
  }

  #group({ project, sources }: Group): Template {
    return html`
      <section class="section group">
        <div class="section-head">
          <h2 class="cut" translate="no"><a href="projects/${project.id}/logs">${project.name}</a></h2>
        </div>
        <ul class="card rows">
          ${sources.map(({ id, label, filePath, kind }) =>
            keyed(
              id,
              html`
            <li>
              <label>
                <input type="checkbox" .checked="${this.#chosen.has(id)}" @change="${() => this.#choose(id)}">
                <b class="cut" translate="no">${label}</b>
                <code class="cut" translate="no" title="${filePath}"><bdi>${filePath}</bdi></code>
                <span class="kind">${t(kindWords[kind].words)}</span>
                <a href="projects/${project.id}/logs/${id}" title="${t('Open')}">${icon('next')}<span class="unseen">${t('Open')} ${label}</span></a>
              </label>
            </li>`
            )
          )}
        </ul>
      </section>`
  }

  #choice(): Template {
    const { size } = this.#chosen
    const open = (isMerged: boolean): void => this.context.go(addressOf([...this.#chosen], isMerged))
    return html`
      <div class="chosen" role="region" aria-label="${t('Chosen log files')}">
        <p aria-live="polite">${
          size > mostSide
            ? t('{count} chosen; at most {most} fit side by side', { count: size, most: mostSide })
            : t('{count} chosen', { count: size })
        }</p>
        <button type="button" class="quiet" @click="${() => this.#chooseNone()}">${t('Choose none')}</button>
        <button type="button" disabled="${size < 2 || size > mostMerged}" @click="${() => open(true)}">${t('Merged by time')}</button>
        <button type="button" class="primary" disabled="${size > mostSide}" @click="${() => open(false)}">
          ${size === 1 ? t('Open') : t('Side by side')}
        </button>
      </div>`
  }

  #viewers(groups: readonly Group[], ids: readonly string[]): Template {
    const all = groups.flatMap(({ project, sources }) => sources.map(source => ({ project, source })))
    const shown = ids.flatMap(id => all.filter(({ source }) => source.id === id))
    const isMerged = this.place.query.has('merged')
    const names = shown.map(({ source }) => source.label).join(', ')
    this.entitle(names === '' ? t('Logs') : names, [{ words: t('Logs'), address: 'logs' }, { words: names }])
    if (shown.length === 0) return html`<div class="page-head"><h1>${t('Logs')}</h1></div>${nothingLeft()}`
    const kept = shown.map(({ source }) => source.id)
    return html`
      <div class="page-head shown">
        <h1>${t('Logs')}</h1>
        <ul class="names" aria-label="${t('Shown log files')}">
          ${shown.map(
            ({ project, source }) => html`
            <li>
              <span class="cut" translate="no" title="${source.filePath}">${project.name} · ${source.label}</span>
              <button type="button" title="${t('Remove from view')}"
                @click="${() =>
                  this.#show(
                    kept.filter(id => id !== source.id),
                    isMerged
                  )}">
                ${icon('close')}<span class="unseen">${t('Remove from view')} ${source.label}</span>
              </button>
            </li>`
          )}
        </ul>
        <div class="tools">
          <a class="button" href="logs">${t('Choose other log files')}</a>
          ${
            shown.length < 2
              ? null
              : html`
              <button type="button" @click="${() => this.#show(kept, !isMerged)}">
                ${isMerged ? t('Side by side') : t('Merged by time')}
              </button>`
          }
        </div>
      </div>
      ${isMerged ? this.#merged(shown.slice(0, mostMerged)) : this.#side(shown.slice(0, mostSide))}`
  }

  #side(shown: ReadonlyArray<{ source: LogSource }>): Template | null {
    if (!this.late(loadFile, true)) return null
    const many = ['one', 'two', 'three', 'four'][shown.length - 1] ?? 'four'
    return html`
      <div class="viewers ${many}">
        ${shown.map(({ source }) =>
          keyed(
            source.id,
            html`
          <svc-log-file class="card" .source="${source}" .client="${this.context.client}"
            .connection="${this.context.connection}"></svc-log-file>`
          )
        )}
      </div>`
  }

  #merged(shown: ReadonlyArray<{ source: LogSource }>): Template | null {
    if (!this.late(loadMerged, true)) return null
    const sources = shown.map(({ source }) => source)
    return html`
      <div class="viewers">
        ${[
          keyed(
            sources.map(({ id }) => id).join(),
            html`
          <svc-merged-log class="card" .sources="${sources}" .client="${this.context.client}"
            .connection="${this.context.connection}"></svc-merged-log>`
          )
        ]}
      </div>`
  }

  #show(ids: readonly string[], isMerged: boolean): void {
    this.context.go(addressOf(ids, isMerged), { isReplacing: true })
  }

  #find(query: string): void {
    this.context.go(query === '' ? 'logs' : `logs?${new URLSearchParams({ q: query })}`, { isReplacing: true })
  }

  #choose(id: string): void {
    if (!this.#chosen.delete(id)) this.#chosen.add(id)
    this.update()
  }

  #chooseNone(): void {
    this.#chosen.clear()
    this.update()
  }
}

function addressOf(ids: readonly string[], isMerged: boolean): string {
  if (ids.length === 0) return 'logs'
  const query = new URLSearchParams(ids.map(id => ['source', id]))
  if (isMerged) query.set('merged', '1')
  return `logs?${query}`
}

function matches(project: Project, { label, filePath }: LogSource, query: string): boolean {
  const text = `${project.name} ${label} ${filePath}`.toLowerCase()
  return query
    .toLowerCase()
    .split(/\s+/)
    .every(word => text.includes(word))
}

function empty(): Template {
  return html`
    <div class="state card">
      <h2>${t('No log files yet')}</h2>
      <p class="muted">${t('Each project has its own list of log files. Open a project to add its files.')}</p>
      <a class="button" href="projects">${t('Go to projects')}</a>
    </div>`
}

function nothingFound(query: string, showAll: () => void): Template {
  return html`
    <div class="state card">
      <h2>${t('Nothing found')}</h2>
      <p class="muted anywhere">${t('No log file has “{query}” in its name, its path or its project.', { query })}</p>
      <button type="button" @click="${showAll}">${t('Show all')}</button>
    </div>`
}

function nothingLeft(): Template {
  return html`
    <div class="state card">
      <h2>${t('These log files are no longer listed')}</h2>
      <p class="muted">${t('They were removed from their projects. The files themselves may still exist.')}</p>
      <a class="button" href="logs">${t('Choose other log files')}</a>
    </div>`
}

export const elements = { 'svc-page-logs': LogsPage }
