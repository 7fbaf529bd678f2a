import type { Project } from '../../model/project.js'
import type { Store } from '../database.js'
import { listProjects, projectAt } from './projects.js'

interface Kept {
  position: number
  project: Project
}

/**
 * All projects, newest created first, as `listProjects` gives them, kept in memory: a call reads the rows that were written
 * to since the last one. Of 5,000 it takes 50 ms to read all (test/bench/scale). Nothing is kept before the first call.
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
