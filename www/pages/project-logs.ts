import type { LogSource } from '../../lib/model/log-source.js'
import type { Project } from '../../lib/model/project.js'
import { css } from '../dom/element.js'
import { html, icon } from '../dom/html.js'
import type { Template } from '../dom/html.js'
import { projectTabs } from '../elements/project-tabs.js'
import { loaded, staleLine } from '../state/resource.js'
import type { Resource } from '../state/resource.js'
import { SvcDialog } from '../elements/svc-dialog.js'
import type { SourcesAddedEvent } from '../elements/svc-log-add.js'
import { logFileElements } from '../elements/svc-log-file.js'
import type { LogPlace, LogPlaceEvent } from '../elements/svc-log-file.js'
import { SvcLogSources } from '../elements/svc-log-sources.js'
import { createLogCalls } from '../server/log-calls.js'
import type { LogCalls } from '../server/log-calls.js'
import { createPlaceCalls } from '../server/place-calls.js'
import type { PlaceCalls } from '../server/place-calls.js'
import { countWords, t } from '../words/t.js'
import { Page } from './page.js'

/**
 * The log files of a project; with a source in the path, that file. Query of the list: `add`: the dialog that adds some
 * is open. Of a file: `at`: the offset of a line; `q`, `regex`, `cased`: what is searched for.
 */
export class ProjectLogsPage extends Page {
  static override sheet = css`
    svc-page-project-logs {
      /* A log uses all the room there is. */
      svc-app > .frame > .content > main > &:has(svc-log-file) { max-width: none; gap: 16px; }
      .viewer { height: calc(100dvh - 260px); min-height: 360px; overflow: clip; }
      .back { display: flex; flex-wrap: wrap; align-items: baseline; gap: 4px 16px; min-width: 0; }
      .back code { min-width: 0; overflow-wrap: anywhere; color: var(--muted); }
      @media (max-width: 719px) { .viewer { height: calc(100dvh - 250px); min-height: 75dvh; } }
    }
  `

  #calls!: LogCalls
  #places!: PlaceCalls
  #project!: Resource<Project>
  #sources!: Resource<LogSource[]>
  #isFormLoaded = false

  get #projectId(): string {
    return this.place.params['id'] as string
  }

  protected override connected(): void {
    const { client, calls } = this.context
    this.#calls = createLogCalls(client)
    this.#places = createPlaceCalls(client)
    this.entitle(t('Logs'), [{ words: t('Projects'), address: 'projects' }])
    this.#project = this.resource(signal => calls.project(this.#projectId, signal))
    this.#sources = this.resource(signal => this.#calls.sources(this.#projectId, signal))
    this.moved()
  }

  protected override moved(): void {
    if (this.#isAdding && !this.#isFormLoaded) void this.attempt(() => this.#loadForm())
  }

  async #loadForm(): Promise<void> {
    this.context.define((await import('../elements/svc-log-add.js')).elements)
    this.#isFormLoaded = true
  }

  get #isAdding(): boolean {
    return this.place.query.has('add')
  }

  protected override view(): Template {
    return html`${loaded(this.#project, 'the project', project => {
      const sourceId = this.place.params['sourceId']
      return sourceId === undefined ? this.#list(project) : this.#file(project, sourceId)
    })}`
  }

  #list(project: Project): Template {
    const address = `projects/${project.id}`
    this.entitle(`${project.name} · ${t('logs')}`, [
      { words: t('Projects'), address: 'projects' }, { words: project.name, address }, { words: t('Logs') }
    ])
    return html`
      <div class="page-head">
        <div><h1 translate="no">${project.name}</h1></div>
        <a class="button primary" href="${address}/logs?add">${icon('plus')}${t('Add log files')}</a>
      </div>
      ${projectTabs(project.id, 'logs')}
      ${staleLine(this.#sources)}
      <div class="card">
        ${loaded(this.#sources, 'the log files', sources => sources.length === 0
          ? html`
            <div class="state">
              <h2>${t('No log files yet')}</h2>
              <p class="muted">
                ${t('Add the files that this project, its server or its database write to, and read them here: live, searched, side by side.')}
              </p>
              <a class="button" href="${address}/logs?add">${icon('plus')}${t('Add log files')}</a>
            </div>`
          : html`
            <svc-log-sources .sources="${sources}" .calls="${this.#calls}"
              @sourceschange="${() => void this.#sources.load()}"></svc-log-sources>`)}
      </div>
      ${this.#isAdding && this.#isFormLoaded
        ? html`
          <svc-dialog heading="${t('Add log files')}" .content="${this.#form(project)}"
            @dialogclose="${() => this.#close()}"></svc-dialog>`
        : null}`
  }

  #form(project: Project): Template {
    return html`
      <svc-log-add .projectId="${project.id}" .start="${'/var/log'}" .calls="${this.#calls}" .places="${this.#places}"
        @sourcesadded="${(event: Event) => this.#added(event as SourcesAddedEvent)}"
        @sourcescancel="${() => this.#close()}"></svc-log-add>`
  }

  #close(): void {
    this.context.go(`projects/${this.#projectId}/logs`, { isReplacing: true })
  }

  #added({ count }: SourcesAddedEvent): void {
    this.notify(t('{files} added', { files: countWords(count, 'log file') }))
    this.#close()
    void this.#sources.load()
  }

  #file(project: Project, sourceId: string): Template {
    return html`${loaded(this.#sources, 'the log files', sources => {
      const source = sources.find(({ id }) => id === sourceId)
      return source === undefined ? gone(project) : this.#viewer(project, source)
    })}`
  }

  #viewer(project: Project, source: LogSource): Template {
    const address = `projects/${project.id}`
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
      ${projectTabs(project.id, 'logs')}
      <div class="card viewer">
        <svc-log-file .source="${source}" .calls="${this.#calls}" .connection="${this.context.connection}"
          .place="${placeOf(this.place.query)}"
          @logplace="${(event: Event) => this.#moveTo(source, (event as LogPlaceEvent).place)}"></svc-log-file>
      </div>`
  }

  #moveTo({ id }: LogSource, place: LogPlace): void {
    const query = queryOf(place)
    const address = `projects/${this.#projectId}/logs/${id}`
    this.context.go(query.size === 0 ? address : `${address}?${query}`, { isReplacing: true })
  }
}

function placeOf(query: URLSearchParams): LogPlace {
  const at = query.get('at')
  const q = query.get('q') ?? ''
  return {
    at: at !== null && /^\d{1,15}$/.test(at) ? Number(at) : null,
    sought: q === '' ? null : { q, isRegex: query.has('regex'), ignoresCase: !query.has('cased') }
  }
}

function queryOf({ at, sought }: LogPlace): URLSearchParams {
  const query = new URLSearchParams()
  if (at !== null) query.set('at', String(at))
  if (sought !== null) {
    query.set('q', sought.q)
    if (sought.isRegex) query.set('regex', '1')
    if (!sought.ignoresCase) query.set('cased', '1')
  }
  return query
}

function gone(project: Project): Template {
  return html`
    ${projectTabs(project.id, 'logs')}
    <div class="state card">
      <h2>${t('This log file is not listed any more')}</h2>
      <p class="muted">${t('It was removed from the project. The file itself may still be there.')}</p>
      <a class="button" href="projects/${project.id}/logs">${t('To the log files')}</a>
    </div>`
}

export const elements = {
  'svc-page-project-logs': ProjectLogsPage,
  'svc-dialog': SvcDialog,
  'svc-log-sources': SvcLogSources,
  ...logFileElements
}
