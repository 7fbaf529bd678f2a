/* Collects the findings of a comparison (compare.ts): lists of paths, and what a deployment would write. */

import { accessSync, constants, existsSync, type StatsFs } from 'node:fs'
import { dirname } from 'node:path'
import { parentOf } from '../../base/files.js'
import {
  type DriftedFile,
  type PlanBytes,
  type PlanCheck,
  type PlanConflict,
  type PlanCounts,
  planKinds,
  type PlanPaths,
  type ProtectedFile,
  type UnownedFile
} from '../../model/plan.js'
import { reasonOf } from '../../base/errors.js'
import { formatBytes } from '../../base/shared/api.js'
import type { FoundEntry } from './found-entry.js'
import type { Folder, Item } from './plan.js'
import { type Disk, fileSystemOf } from './disk.js'
import { type Folders, type HeldDirectory, statHeld } from './held.js'
import { whyNotMade } from './guard.js'

/** The counts and lists of a comparison. */
export type Lists = ReturnType<typeof createLists>

/** Creates empty lists of at most `listed` paths each. */
export function createLists(listed: number) {
  const counts = Object.fromEntries(planKinds.map(kind => [kind, 0])) as PlanCounts
  const paths = { ...Object.fromEntries(planKinds.map(kind => [kind, []])), truncated: false } as unknown as PlanPaths
  const add = <T>(list: T[], value: T): void => {
    if (list.length < listed) list.push(value)
    else paths.truncated = true
  }
  return {
    counts,
    paths,
    path(kind: 'added' | 'changed' | 'timeOnly' | 'unchanged' | 'kept' | 'pruned' | 'foreign', path: string): void {
      counts[kind]++
      add(paths[kind], path)
    },
    drift(file: DriftedFile): void {
      counts.drifted++
      add(paths.drifted, file)
    },
    unowned(file: UnownedFile): void {
      counts.unowned++
      add(paths.unowned, file)
    },
    protect(file: ProtectedFile): void {
      counts.protected++
      add(paths.protected, file)
    },
    conflict(conflict: PlanConflict): void {
      counts.conflicts++
      add(paths.conflicts, conflict)
    }
  }
}

/** Creates an empty collection. */
export function createWrites(held: Pick<Intended, 'disk' | 'root' | 'folders'>) {
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
    /** Adds an entry that would be created, or that would replace `found`. */
    add({ path, size }: Item, folder: Folder, found: FoundEntry | null): void {
      sizes.push(size)
      // The staging directory is created in the target itself.
      written.add('')
      let above: Folder | null = folder
      for (; above !== null && !above.exists; above = above.parent) created.add(above)
      if (above !== null) written.add(above.path)
      if (found === null || found.stats.uid === user || !isProtected(folder.path)) return
      foreign.push({ path, uid: found.stats.uid })
    },
    /** Adds an entry that would be removed. */
    remove(path: string, { stats }: FoundEntry): void {
      const parent = parentOf(path)
      written.add('')
      written.add(parent)
      if (stats.uid !== user && isProtected(parent)) foreign.push({ path, uid: stats.uid })
    },
    /** Total size of the added entries. */
    bytes: (): number => sizes.reduce((sum, size) => sum + size, 0),
    all: (): Pick<Intended, 'written' | 'foreign' | 'sizes' | 'entries'> => ({
      written,
      foreign,
      sizes,
      entries: sizes.length + created.size
    })
  }
}

/* Checks of a target before a deployment: rights, other owners, free space. They write nothing. */

/** What a deployment would do to a target. */
export interface Intended {
  disk: Disk
  root: HeldDirectory
  folders: Folders
  /** The existing directories in which entries would be created or replaced. */
  written: Iterable<string>
  /** Entries that would be replaced, and whose directory lets only their owner do that. */
  foreign: ReadonlyArray<{ path: string; uid: number }>
  /** Sizes of the files that would be written. */
  sizes: Iterable<number>
  /** Number of files and directories that would be created, before the earlier ones are removed. */
  entries: number
}

/** The checks of a target, and its free space. */
export interface TargetChecks extends Pick<PlanBytes, 'diskNeeded' | 'diskFree'> {
  checks: PlanCheck[]
}

const maxPaths = 10
/** Space for directories and the metadata of the file system. */
const spareShare = 1.02
/** Size of a block where the file system does not say it. */
const usualBlockBytes = 4096

/** Checks an existing target. */
export function checkTarget(intended: Intended): TargetChecks {
  const { disk, root, sizes, entries } = intended
  const space = fileSystemOf(disk, root.path)
  const blockBytes = space?.bsize ?? usualBlockBytes
  let bytes = 0
  for (const size of sizes) bytes += Math.ceil(size / blockBytes) * blockBytes
  const diskNeeded = Math.ceil(bytes * spareShare)
  const diskFree = freeBytes(space)
  // Some file systems count no inodes.
  const inodesFree = space === null || space.files === 0 ? null : space.ffree
  const checks = [
    writable(intended),
    owners(intended),
    spaceCheck(diskNeeded, diskFree),
    inodesFree === null || inodesFree >= entries
      ? passed('inodes')
      : failed('inodes', 'no_space', `The deployment needs ${entries} inodes in the target, and ${inodesFree} are free`)
  ]
  return { checks, diskNeeded, diskFree }
}

/** Checks a target that does not exist yet. */
export function checkMissingTarget(disk: Disk, target: string, bytes: number): TargetChecks {
  const why = whyNotMade(target)
  const writable =
    why === null
      ? passed('target_writable')
      : failed('target_writable', 'target_not_writable', `The target cannot be created: ${why}`)
  const diskNeeded = Math.ceil(bytes * spareShare)
  const diskFree = freeAbove(disk, target)
  return { checks: [writable, spaceCheck(diskNeeded, diskFree)], diskNeeded, diskFree }
}

/** Returns the free space of the file system that the target would be on; null if it is unknown. */
function freeAbove(disk: Disk, target: string): number | null {
  let place = target
  while (!existsSync(place) && dirname(place) !== place) place = dirname(place)
  return freeBytes(fileSystemOf(disk, place))
}

/** Some file systems count no blocks. */
function freeBytes(space: StatsFs | null): number | null {
  return space === null || space.blocks === 0 ? null : space.bavail * space.bsize
}

function spaceCheck(needed: number, free: number | null): PlanCheck {
  if (free === null) return { ...passed('space_target'), message: 'The free space of the target is unknown' }
  if (needed <= free) return passed('space_target')
  const sentence = `The deployment needs ${formatBytes(needed)} in the target, and ${formatBytes(free)} are free`
  return failed('space_target', 'no_space', sentence)
}

function writable({ root, folders, written }: Intended): PlanCheck {
  const paths: string[] = []
  let first: unknown = null
  for (const path of written) {
    try {
      accessSync(path === '' ? root.path : folders.at(path), constants.W_OK | constants.X_OK)
    } catch (error) {
      first ??= error
      paths.push(path === '' ? '.' : path)
    }
  }
  if (first === null) return passed('target_writable')
  const advice = (first as NodeJS.ErrnoException).code === 'EROFS' ? '. Under systemd, see ReadWritePaths' : ''
  const where = paths.length === 1 ? `"${paths[0]}"` : `${paths.length} directories`
  const sentence = `Cannot write in ${where} of the target: ${reasonOf(first)}${advice}`
  return { ...failed('target_writable', 'not_permitted', sentence), paths: paths.slice(0, maxPaths) }
}

function owners({ foreign }: Intended): PlanCheck {
  const [first] = foreign
  if (first === undefined) return passed('entries_owned_by_others')
  const users = [...new Set(foreign.map(({ uid }) => (uid === 0 ? 'root' : `user ${uid}`)))].join(', ')
  const what = foreign.length === 1 ? '1 file belongs' : `${foreign.length} files belong`
  const sentence = `${what} to ${users} and cannot be replaced, because the sticky bit of the directory is set`
  const paths = foreign.slice(0, maxPaths).map(({ path }) => path)
  return { ...failed('entries_owned_by_others', 'not_permitted', sentence), paths }
}

const sticky = 0o1000

/** Returns whether a directory lets only the owner of an entry, and its own owner, replace the entry. */
function protectsOwner({ disk, root, folders }: Pick<Intended, 'disk' | 'root' | 'folders'>, path: string): boolean {
  const user = process.geteuid?.()
  if (user === undefined || user === 0) return false
  const stats = path === '' ? statHeld(disk, root) : disk.lstatSync(`${folders.at(path)}/.`)
  return (stats.mode & sticky) !== 0 && stats.uid !== user
}

/** Returns a check that passed. */
export function passed(name: PlanCheck['name']): PlanCheck {
  return { name, ok: true }
}

/** Returns a check that failed, with the error code of the deployment. */
export function failed(name: PlanCheck['name'], code: string, message: string): PlanCheck {
  return { name, ok: false, code, message }
}
