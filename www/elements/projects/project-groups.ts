import type { ShownProject as Project } from '../../../lib/model/project.js'

/* The groups of a list of projects. Pure. */

/** What the list of projects can be grouped by. */
export const groupings = ['none', 'env', 'category'] as const
export type Grouping = (typeof groupings)[number]

/** Projects under a heading. */
export interface ProjectGroup {
  /** The environment, or the id of the category; null: without a category, or not grouped. */
  key: string | null
  projects: readonly Project[]
}

/**
 * Groups projects without changing their order inside a group. Environments are sorted by name; categories are in the order
 * of `categories`, and projects without one come last.
 */
export function groupsOf(
  projects: readonly Project[],
  grouping: Grouping,
  categories: readonly string[]
): ProjectGroup[] {
  if (grouping === 'none') return [{ key: null, projects }]
  const groups = new Map<string | null, Project[]>()
  for (const project of projects) {
    const key = grouping === 'env' ? project.env : (categories.find(id => id === project.categoryId) ?? null)
    const group = groups.get(key)
    if (group === undefined) groups.set(key, [project])
    else group.push(project)
  }
  const keys = grouping === 'env' ? [...groups.keys()].sort() : [...categories, null]
  return keys.flatMap(key => ({ key, projects: groups.get(key) ?? [] })).filter(group => group.projects.length > 0)
}
