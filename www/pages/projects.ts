import { type Labels, readLabels } from '../server/requests.js'
import { type Said, css } from '../elements/element.js'
import type { Family } from '../../lib/model/family.js'
import type { ShownProject as Project } from '../../lib/model/project.js'
import { panelPath } from '../dom/address.js'
import { html, icon, type Template } from '../dom/html.js'
import { type LabelTable, SvcLabel, SvcMarked, SvcStatus, SvcTime } from '../elements/base/facts.js'
import { SvcProjectFilter } from '../elements/projects/svc-project-filter.js'
import {
  createProjectIndex,
  filterOf,
  type ProjectFilter,
  type ProjectIndex,
  queryOf
} from '../elements/projects/project-filter.js'
import { type Grouping, groupsOf, isLookingAtNode, may } from '../state/session.js'
import { loaded, type Resource, staleLine } from '../state/resource.js'
import { SvcBulkFailures, SvcChoiceHead } from '../elements/base/row-choice.js'
import { SvcDialog } from '../elements/base/form.js'
import { SvcMenu } from '../elements/base/svc-menu.js'
import { SvcProjectBulk } from '../elements/projects/svc-project-bulk.js'
import { SvcProjectList } from '../elements/projects/svc-project-list.js'
import { SvcRows } from '../elements/base/svc-rows.js'
import { SvcTagChoice } from '../elements/projects/project-fields.js'
import { countWords, t } from '../words/t.js'
import { Page, tabLinks } from './page.js'

/** Longer lists are refreshed less often. */
const manyProjects = 1000
const manyRefreshMs = 60_000

/**
 * All projects, as a list or by application. Query: the filter (`q`, `category`, `tags`, `env`, `status`, `sort`, `view`);
 * `new` opens the dialog that creates a project.
 */
export class ProjectsPage extends Page {
  static override sheet = css`
    svc-page-projects > .page-head { align-items: center; }
  `

  #projects!: Resource<Project[]>
  #labels!: Resource<Labels>
  #index: ProjectIndex = createProjectIndex([], [])
  #table: LabelTable = new Map()
  #families: Resource<Family[]> | undefined
  #isFormLoaded = false
  #loadedMs = 0

  protected override connected(): void {
    this.entitle(t('Projects'), [{ words: t('Projects') }])
    this.#projects = this.resource(async signal => {
      const projects = await this.context.client.call('GET /api/projects', { signal })
      this.#loadedMs = performance.now()
      this.#reindex(projects, this.#labels?.value)
      return projects
    })
    this.#labels = this.resource(async signal => {
      const labels = await readLabels(this.context.client, signal)
      this.#reindex(this.#projects.value, labels)
      return labels
    })
    this.follow(['projects', 'deployments'], () => {
      const isLong = this.#index.projects.length > manyProjects
      if (isLong && performance.now() - this.#loadedMs <= manyRefreshMs) return false
      void this.#projects.load()
      void this.#families?.refresh()
      return true
    })
    this.followMarks()
    this.moved()
  }

  protected override moved(): void {
    if (this.#isDialogOpen && !this.#isFormLoaded) void this.attempt(() => this.#loadForm())
    if (this.#filter.view === 'families')
      this.#families ??= this.resource(
        async signal => (await this.context.client.call('GET /api/families', { signal })).families
      )
  }

  async #loadForm(): Promise<void> {
    this.context.define((await import('../elements/projects/svc-new-project.js')).elements)
    this.#isFormLoaded = true
  }

  #reindex(projects: readonly Project[] | undefined, labels: Labels | undefined): void {
    const all = [...(labels?.categories ?? []), ...(labels?.tags ?? [])]
    this.#table = new Map(all.map(label => [label.id, label]))
    this.#index = createProjectIndex(projects ?? [], all)
  }

  get #isDialogOpen(): boolean {
    return this.place.query.has('new') && may('create_project')
  }

  get #filter(): ProjectFilter {
    return filterOf(this.place.query)
  }

  protected override view(): Template {
    const filter = this.#filter
    const newAddress = addressOf(filter, { isCreating: true })
    return html`
      <div class="page-head">
        <div><h1>${t('Projects')}</h1></div>
        ${may('create_project') ? html`<a class="button primary" href="${newAddress}">${icon('plus')}${t('New project')}</a>` : null}
      </div>
      ${isLookingAtNode() || this.#projects.value?.length === 0 ? null : tabLinks(t('View'), viewsOf(filter), addressOf(filter))}
      ${staleLine(this.#projects)}
      <div class="section">
        ${
          this.#projects.value?.length === 0
            ? null
            : html`
            <svc-project-filter .filter="${filter}" .labels="${this.#labels.value ?? none}"
              .environments="${this.#index.environments}" .grouping="${this.context.preferences.grouping}"
              @grouping="${(event: Event) => this.#group((event as Said<'grouping'>).grouping)}"
              @filterchange="${(event: Event) => this.#show((event as Said<'filterchange'>).filter)}"></svc-project-filter>`
        }
        ${
          filter.view === 'families' && this.#families !== undefined && this.#index.projects.length > 0
            ? html`${loaded(this.#families, 'the projects', families => this.#sideBySide(families, filter))}`
            : html`<div class="card">${loaded(this.#projects, 'the projects', () => this.#list(filter, newAddress))}</div>`
        }
      </div>
      <svc-dialog heading="${t('New project')}" .content="${this.#isDialogOpen && this.#isFormLoaded ? this.#form() : null}"
        @dialogclose="${() => this.#show(filter)}"></svc-dialog>`
  }

  #list(filter: ProjectFilter, newAddress: string): Template {
    const { projects } = this.#index
    if (projects.length === 0) {
      return html`
        <div class="state">
          <h2>${t('No projects yet')}</h2>
          <p class="muted">
            ${t('A project is a directory on this server, with scripts that run before and after each deployment.')}
          </p>
          ${may('create_project') ? html`<a class="button" href="${newAddress}">${icon('plus')}${t('New project')}</a>` : null}
        </div>`
    }
    const { marks } = this.context
    const found = this.#index.find(filter, new Set(marks.failedInBackground))
    if (found.length === 0) return this.#nothing(filter)
    const categories = this.#labels.value?.categories.map(({ id }) => id) ?? []
    const groups = groupsOf(found, this.context.preferences.grouping, categories)
    return html`
      <svc-project-list plain="${!may('change_projects')}" .client="${this.context.client}"
        .listing="${{ all: projects, groups, labels: this.#labels.value ?? none, table: this.#table, marks }}"
        @projectpin="${(event: Event) => void this.#pin((event as Said<'projectpin'>).project)}"
        @bulkdone="${() => this.#reload()}"></svc-project-list>`
  }

  /** Says that no project, or no application, matches the filter. */
  #nothing({ view }: ProjectFilter): Template {
    const { projects } = this.#index
    return html`
      <div class="state">
        <h2>${t('Nothing found')}</h2>
        <p class="muted">
          ${t('None of {projects} matches the filter.', { projects: countWords(projects.length, 'project') })}
        </p>
        <a class="button" href="${addressOf({ ...filterOf(new URLSearchParams()), view })}">${t('Show all')}</a>
      </div>`
  }

  /** Shows the applications of which a project matches the filter, in its order. */
  #sideBySide(families: readonly Family[], filter: ProjectFilter): Template | null {
    const { marks } = this.context
    const found = this.#index.find(filter, new Set(marks.failedInBackground)).map(({ id }) => id)
    const places = new Map(found.map((id, place) => [id, place]))
    const placeOf = ({ members }: Family): number =>
      Math.min(...members.map(({ projectId }) => places.get(projectId) ?? Infinity))
    const items = families.filter(family => placeOf(family) < Infinity).sort((a, b) => placeOf(a) - placeOf(b))
    if (items.length === 0)
      return html`<div class="card">${families.length === 0 ? noFamilies() : this.#nothing(filter)}</div>`
    if (!this.late(loadFamilies, true)) return null
    return html`<svc-families .items="${items}" .marks="${{ waiting: marks.waiting, locks: marks.locks }}"></svc-families>`
  }

  #form(): Template {
    return html`
      <svc-new-project .client="${this.context.client}" .labels="${this.#labels.value ?? none}"
        .environments="${this.#index.environments}"
        @projectcreated="${(event: Event) => this.#created(event as Said<'projectcreated'>)}"></svc-new-project>`
  }

  #created({ project }: Said<'projectcreated'>): void {
    this.context.go(panelPath`projects/${project.id}`, { isReplacing: true })
  }

  #show(filter: ProjectFilter): void {
    this.context.go(addressOf(filter), { isReplacing: true })
  }

  #group(grouping: Grouping): void {
    this.context.preferences.grouping = grouping
    this.update()
  }

  async #pin(project: Project): Promise<void> {
    await this.attempt(async () => {
      const changed = (
        await this.context.client.call('PUT /api/projects/:id/pin', {
          id: project.id,
          body: { pinned: !project.pinned }
        })
      ).project
      const projects = (this.#projects.value ?? []).map(other => (other.id === changed.id ? changed : other))
      this.#reindex(projects, this.#labels.value)
      this.#projects.set(projects)
    })
  }

  #reload(): void {
    void this.#projects.load()
    void this.#labels.load()
  }
}

const none: Labels = { categories: [], tags: [] }

const loadFamilies = () => import('../elements/projects/svc-families.js')

/** Returns the links to the forms of the list, which keep the filter. */
function viewsOf(filter: ProjectFilter): Array<{ address: string; words: string }> {
  return [
    { address: addressOf({ ...filter, view: 'list' }), words: 'List' },
    { address: addressOf({ ...filter, view: 'families' }), words: 'Environments' }
  ]
}

function noFamilies(): Template {
  return html`
    <div class="state">
      <h2>${t('No application has several projects')}</h2>
      <p class="muted">
        ${t('Projects are shown side by side if their names differ only in the environment, such as shop and shop-staging, or if they have a common tag, such as app:shop.')}
      </p>
    </div>`
}

function addressOf(filter: ProjectFilter, { isCreating = false } = {}): string {
  const query = queryOf(filter)
  if (isCreating) query.set('new', '')
  return query.size === 0 ? 'projects' : `projects?${query}`
}

export const elements = {
  'svc-page-projects': ProjectsPage,
  'svc-bulk-failures': SvcBulkFailures,
  'svc-choice-head': SvcChoiceHead,
  'svc-dialog': SvcDialog,
  'svc-label': SvcLabel,
  'svc-marked': SvcMarked,
  'svc-menu': SvcMenu,
  'svc-project-bulk': SvcProjectBulk,
  'svc-project-filter': SvcProjectFilter,
  'svc-project-list': SvcProjectList,
  'svc-rows': SvcRows,
  'svc-status': SvcStatus,
  'svc-tag-choice': SvcTagChoice,
  'svc-time': SvcTime
}
