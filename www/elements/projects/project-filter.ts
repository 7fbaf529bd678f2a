import { shownStatus } from '../../shared/api.js'
import type { Label, ShownProject as Project, ProjectStatus } from '../../../lib/model/project.js'

/* Which projects are shown and in which order, and how the address expresses this. Pure. */

const projectSorts = ['deployed', 'name', 'created'] as const
/** An order of the projects. */
export type ProjectSort = (typeof projectSorts)[number]

const projectViews = ['list', 'families'] as const
/** A form of the list. */
export type ProjectView = (typeof projectViews)[number]

/** Value of `category` for projects without a category. */
export const noCategory = 'none'

const statuses: readonly string[] = ['idle', 'running', 'success', 'failed'] satisfies ProjectStatus[]

/** The filter and the order of the projects. */
export interface ProjectFilter {
  /** Each word must occur in the name, description, path, environment or labels of a project. */
  words: string
  /** An id, `noCategory`, or empty for any. */
  category: string
  /** Ids. A project must have all of these tags (§4.3). */
  tags: readonly string[]
  env: string
  /** Empty for any. */
  status: string
  sort: ProjectSort
  /** `families`: the projects of each application side by side. */
  view: ProjectView
}

/** Returns the filter of an address. Invalid values are ignored. */
export function filterOf(query: URLSearchParams): ProjectFilter {
  const status = query.get('status') ?? ''
  const sort = projectSorts.find(name => name === query.get('sort'))
  return {
    words: query.get('q') ?? '',
    category: query.get('category') ?? '',
    tags: (query.get('tags') ?? '').split(',').filter(Boolean),
    env: query.get('env') ?? '',
    status: statuses.includes(status) ? status : '',
    sort: sort ?? 'deployed',
    view: projectViews.find(view => view === query.get('view')) ?? 'list'
  }
}

/** Returns the query of a filter. Default values are omitted. */
export function queryOf({ words, category, tags, env, status, sort, view }: ProjectFilter): URLSearchParams {
  const said: Array<[name: string, value: string]> = [
    ['q', words],
    ['category', category],
    ['tags', tags.join(',')],
    ['env', env],
    ['status', status],
    ['sort', sort === 'deployed' ? '' : sort],
    ['view', view === 'list' ? '' : view]
  ]
  return new URLSearchParams(said.filter(([, value]) => value !== ''))
}

/** Projects prepared for fast filtering at every key press. */
export interface ProjectIndex {
  readonly projects: readonly Project[]
  /** All existing environments by name. */
  readonly environments: readonly string[]
  /**
   * Returns the matching projects: pinned ones first, then in the order of the filter. The status of those whose script failed
   * in the background counts as failed.
   */
  find(filter: ProjectFilter, failedInBackground?: ReadonlySet<string>): Project[]
}

interface Row {
  project: Project
  /** All searchable text in lower case. */
  text: string
}

/** `labels`: categories and tags, whose names can be searched. */
export function createProjectIndex(projects: readonly Project[], labels: readonly Label[]): ProjectIndex {
  const names = new Map(labels.map(({ id, name }) => [id, name]))
  const rows = projects.map(project => ({ project, text: textOf(project, names) }))
  const orders = new Map<ProjectSort, Row[]>()

  function ordered(sort: ProjectSort): Row[] {
    const known = orders.get(sort)
    if (known !== undefined) return known
    const order = [...rows].sort(
      (a, b) => Number(b.project.pinned) - Number(a.project.pinned) || comparisons[sort](a.project, b.project)
    )
    orders.set(sort, order)
    return order
  }

  return {
    projects,
    environments: [...new Set(projects.map(({ env }) => env))].sort(collator.compare),
    find(filter, failedInBackground = new Set()) {
      const words = filter.words.toLowerCase().split(/\s+/).filter(Boolean)
      return ordered(filter.sort)
        .filter(
          ({ project, text }) => passes(project, filter, failedInBackground) && words.every(word => text.includes(word))
        )
        .map(({ project }) => project)
    }
  }
}

const collator = new Intl.Collator('en', { numeric: true, sensitivity: 'base' })
const latestFirst = (a: string, b: string): number => (a < b ? 1 : a > b ? -1 : 0)

const comparisons: Record<ProjectSort, (a: Project, b: Project) => number> = {
  // A project that was never deployed is sorted by its creation, so that a new project is not hidden behind old ones.
  deployed: (a, b) => latestFirst(a.lastDeployAt ?? a.createdAt, b.lastDeployAt ?? b.createdAt),
  name: (a, b) => collator.compare(a.name, b.name),
  created: (a, b) => latestFirst(a.createdAt, b.createdAt)
}

function textOf(project: Project, names: ReadonlyMap<string, string>): string {
  const labels = [project.categoryId ?? '', ...project.tagIds].map(id => names.get(id) ?? '')
  return [project.name, project.description, project.deployPath, project.env, ...labels].join('\n').toLowerCase()
}

function passes(
  project: Project,
  { category, tags, env, status }: ProjectFilter,
  failedInBackground: ReadonlySet<string>
): boolean {
  if (category !== '' && (project.categoryId ?? noCategory) !== category) return false
  if (env !== '' && project.env !== env) return false
  const shown = shownStatus(project.status, failedInBackground.has(project.id))
  if (status !== '' && shown !== status) return false
  return tags.every(tag => project.tagIds.includes(tag))
}
