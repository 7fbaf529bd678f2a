/* Collects the findings of a comparison (compare.ts): lists of paths, and what a deployment would write. */
import { parentOf } from '../base/files.js'
import {
  planKinds,
  type DriftedFile,
  type PlanConflict,
  type PlanCounts,
  type PlanPaths,
  type ProtectedFile,
  type UnownedFile
} from '../model/plan.js'
import type { FoundEntry } from './found-entry.js'
import type { Folder, Item } from './plan.js'
import { protectsOwner, type Intended } from './preflight.js'

/** The counts and lists of a comparison. */
export interface Lists {
  counts: PlanCounts
  paths: PlanPaths
  path(kind: 'added' | 'changed' | 'timeOnly' | 'unchanged' | 'kept' | 'pruned' | 'foreign', path: string): void
  drift(file: DriftedFile): void
  unowned(file: UnownedFile): void
  protect(file: ProtectedFile): void
  conflict(conflict: PlanConflict): void
}

/** Creates empty lists of at most `listed` paths each. */
export function createLists(listed: number): Lists {
  const counts = Object.fromEntries(planKinds.map(kind => [kind, 0])) as PlanCounts
  const paths = { ...Object.fromEntries(planKinds.map(kind => [kind, []])), truncated: false } as unknown as PlanPaths
  const add = <T>(list: T[], value: T): void => {
    if (list.length < listed) list.push(value)
    else paths.truncated = true
  }
  return {
    counts,
    paths,
    path(kind, path) {
      counts[kind]++
      add(paths[kind], path)
    },
    drift(file) {
      counts.drifted++
      add(paths.drifted, file)
    },
    unowned(file) {
      counts.unowned++
      add(paths.unowned, file)
    },
    protect(file) {
      counts.protected++
      add(paths.protected, file)
    },
    conflict(conflict) {
      counts.conflicts++
      add(paths.conflicts, conflict)
    }
  }
}

/** What a deployment would write, entry by entry. */
export interface Writes {
  /** Adds an entry that would be created, or that would replace `found`. */
  add(item: Item, folder: Folder, found: FoundEntry | null): void
  /** Adds an entry that would be removed. */
  remove(path: string, found: FoundEntry): void
  /** Total size of the added entries. */
  bytes(): number
  all(): Pick<Intended, 'written' | 'foreign' | 'sizes' | 'entries'>
}

/** Creates an empty collection. */
export function createWrites(held: Pick<Intended, 'disk' | 'root' | 'folders'>): Writes {
  const written = new Set<string>()
  const foreign: Array<{ path: string; uid: number }> = []
  const created = new Set<Folder>()
  const protecting = new Map<string, boolean>()
  const sizes: number[] = []
  const user = process.geteuid?.()

  function isProtected(path: string): boolean {
    const known = protecting.get(path) ?? protectsOwner(held, path)
    protecting.set(path, known)
    return known
  }

  return {
    add({ path, size }, folder, found) {
      sizes.push(size)
      // The staging directory is created in the target itself.
      written.add('')
      let above: Folder | null = folder
      for (; above !== null && !above.exists; above = above.parent) created.add(above)
      if (above !== null) written.add(above.path)
      if (found === null || found.stats.uid === user || !isProtected(folder.path)) return
      foreign.push({ path, uid: found.stats.uid })
    },
    remove(path, { stats }) {
      const parent = parentOf(path)
      written.add('')
      written.add(parent)
      if (stats.uid !== user && isProtected(parent)) foreign.push({ path, uid: stats.uid })
    },
    bytes: () => sizes.reduce((sum, size) => sum + size, 0),
    all: () => ({ written, foreign, sizes, entries: sizes.length + created.size })
  }
}
