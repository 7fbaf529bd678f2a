import type { Project } from '../../model/project.js'
import type { Store } from '../database.js'
import { listProjects, projectAt } from './projects.js'

interface Kept {
  position: number
  project: Project
}

/**
 * Caches all projects, newest created first, like `listProjects`. Each call reads only the rows that were written to
 * since the last call: reading all of 5,000 projects takes 50 ms (test/bench/scale). The first call reads all projects.
 * The caller must not change them.
 */
export function keepProjects(store: Pick<Store, 'get' | 'all' | 'follow'>): () => readonly Project[] {
  const followed = store.follow('projects')
  const rows = new Map<number, Kept>()
  let sorted: Project[] = []

  function sort(): void {
    const newestFirst = (one: Kept, other: Kept): number => {
      const [at, otherAt] = [one.project.createdAt, other.project.createdAt]
      return at === otherAt ? other.position - one.position : at < otherAt ? 1 : -1
    }
    sorted = [...rows.values()].sort(newestFirst).map(({ project }) => project)
  }

  return () => {
    const changed = followed.take()
    if (changed === null) {
      rows.clear()
      sorted = listProjects(store, (project, position) => void rows.set(position, { project, position }))
      return sorted
    }
    if (changed.size === 0) return sorted
    for (const position of changed) {
      const project = projectAt(store, position)
      if (project === undefined) rows.delete(position)
      else rows.set(position, { project, position })
    }
    sort()
    return sorted
  }
}
