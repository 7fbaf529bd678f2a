import type { Label } from '../../lib/model/label.js'
import type { Project, ProjectStatus } from '../../lib/model/project.js'

/* Which projects are shown, in which order, and how that is said in the address. Pure. */

export const projectSorts = ['deployed', 'name', 'created'] as const
export type ProjectSort = (typeof projectSorts)[number]

/** Value of `category` for the projects that have none. */
export const noCategory = 'none'

const statuses: readonly string[] = ['idle', 'running', 'success', 'failed'] satisfies ProjectStatus[]

export interface ProjectFilter {
  /** Each must be in its name, description, path, environment, or labels. */
  words: string
  /** An id, `noCategory`, or empty: any. */
  category: string
  /** Ids: a project must have all of them (§4.3). */
  tags: readonly string[]
  env: string
  /** Empty: any. */
  status: string
  sort: ProjectSort
}

/** The filter that an address asks for; what cannot be meant is as if it were not there. */
export function filterOf(query: URLSearchParams): ProjectFilter {
  const status = query.get('status') ?? ''
  const sort = projectSorts.find(name => name === query.get('sort'))
  return {
    words: query.get('q') ?? '',
    category: query.get('category') ?? '',
    tags: (query.get('tags') ?? '').split(',').filter(Boolean),
    env: query.get('env') ?? '',
    status: statuses.includes(status) ? status : '',
    sort: sort ?? 'deployed'
  }
}

/** The query that says the filter: nothing of what goes without saying. */
export function queryOf({ words, category, tags, env, status, sort }: ProjectFilter): URLSearchParams {
  const said: Array<[name: string, value: string]> = [
    ['q', words], ['category', category], ['tags', tags.join(',')], ['env', env], ['status', status],
    ['sort', sort === 'deployed' ? '' : sort]
  ]
  return new URLSearchParams(said.filter(([, value]) => value !== ''))
}

/** Whether the filter lets every project through. */
export function isOpen(filter: ProjectFilter): boolean {
  return queryOf({ ...filter, sort: 'deployed' }).size === 0
}

/** Projects, made ready to be looked through at every key that is pressed. */
export interface ProjectIndex {
  readonly projects: readonly Project[]
  /** Every environment there is, by name. */
  readonly environments: readonly string[]
  /** Those that the filter lets through, pinned ones first, then as it sorts. */
  find(filter: ProjectFilter): Project[]
}

interface Row {
  project: Project
  /** All that words are looked for in, in lower case. */
  text: string
}

/** `labels`: categories and tags, whose names can be looked for. */
export function createProjectIndex(projects: readonly Project[], labels: readonly Label[]): ProjectIndex {
  const names = new Map(labels.map(({ id, name }) => [id, name]))
  const rows = projects.map(project => ({ project, text: textOf(project, names) }))
  const orders = new Map<ProjectSort, Row[]>()

  function ordered(sort: ProjectSort): Row[] {
    const known = orders.get(sort)
    if (known !== undefined) return known
    const order = [...rows].sort((a, b) =>
      Number(b.project.pinned) - Number(a.project.pinned) || comparisons[sort](a.project, b.project))
    orders.set(sort, order)
    return order
  }

  return {
    projects,
    environments: [...new Set(projects.map(({ env }) => env))].sort(collator.compare),
    find(filter) {
      const words = filter.words.toLowerCase().split(/\s+/).filter(Boolean)
      return ordered(filter.sort)
        .filter(({ project, text }) => passes(project, filter) && words.every(word => text.includes(word)))
        .map(({ project }) => project)
    }
  }
}

const collator = new Intl.Collator('en', { numeric: true, sensitivity: 'base' })
const latestFirst = (a: string, b: string): number => (a < b ? 1 : a > b ? -1 : 0)

const comparisons: Record<ProjectSort, (a: Project, b: Project) => number> = {
  // Who was never deployed to stands where its creation would: a new project is not hidden behind old ones.
  deployed: (a, b) => latestFirst(a.lastDeployAt ?? a.createdAt, b.lastDeployAt ?? b.createdAt),
  name: (a, b) => collator.compare(a.name, b.name),
  created: (a, b) => latestFirst(a.createdAt, b.createdAt)
}

function textOf(project: Project, names: ReadonlyMap<string, string>): string {
  const labels = [project.categoryId ?? '', ...project.tagIds].map(id => names.get(id) ?? '')
  return [project.name, project.description, project.deployPath, project.env, ...labels].join('\n').toLowerCase()
}

function passes(project: Project, { category, tags, env, status }: ProjectFilter): boolean {
  if (category !== '' && (project.categoryId ?? noCategory) !== category) return false
  if (env !== '' && project.env !== env) return false
  if (status !== '' && project.status !== status) return false
  return tags.every(tag => project.tagIds.includes(tag))
}
