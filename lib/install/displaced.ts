/*
 * Files that were edited after a deployment had put them in place, and that a revert would lose. They are kept:
 *
 *   <staging>/displaced/<path>          while the target is put back
 *   <target>/.svc-displaced-<id>/<path> afterwards, mode 0700, for an operator to look at and to remove
 *
 * Both are on the file system of the target, so a file is kept by a link or a rename: nothing is copied, and an
 * interrupted revert can be repeated. Only staging is written to by path, because no other user can enter it.
 *
 * The kernel sets the change time (ctime) of an inode at every write and every rename. So a file whose change time is
 * before the journal's line `placed`, and whose size and modification time are those of the manifest, was not edited.
 * Any other file is compared by its contents.
 */
import type { Stats } from 'node:fs'
import { parentOf } from '../base/files.js'
import type { Disk } from './disk.js'
import { createDigester, type Digester } from './digest.js'
import { nameOf } from './folders.js'
import type { HeldDirectory } from './held.js'
import { sameTimeMs } from './regular.js'

/** What the manifest says about a file. */
export interface PlacedFile {
  size: number
  sha256: string
  /** Absent in manifests of earlier versions. */
  mtimeMs?: number | null
}

/** Keeps edited files while a target is put back. */
export interface Displacing {
  /**
   * Keeps the file at `place` if it was edited. A file that is about to be replaced gets a second name; one that is
   * about to be removed is moved. Returns whether it was kept.
   */
  keep(path: string, place: string, how: 'link' | 'move'): boolean
}

/** What decides whether a file was edited. */
export interface DisplacingNeeds {
  disk: Disk
  /** The path of the staging directory in calls (held.ts). */
  staging: string
  /** When everything was in place, in ms since 1970. */
  placedAtMs: number
  /** The files of the deployment by their paths. */
  files: ReadonlyMap<string, PlacedFile>
}

/** The kernel's time of an inode is behind its clock by up to one tick. */
const tickMs = 50
/** The beginning of the names of the directories with kept files. */
export const displacedPrefix = '.svc-displaced-'
/** Maximum number of paths in a report. */
const maxPaths = 100

/** Creates what keeps edited files. */
export function createDisplacing(needs: DisplacingNeeds): Displacing {
  const { disk, staging } = needs
  const digester = createDigester(disk)
  const nameFor = createNaming(disk, staging)

  return {
    keep(path, place, how) {
      if (!isEdited(needs, digester, { path, place })) return false
      const kept = nameFor(path)
      if (how === 'move' || !link(disk, place, kept)) disk.renameSync(place, kept)
      return true
    }
  }
}

/** Creates the function that keeps an entry at `place`, whatever it is. */
export function createDisplace(disk: Disk, staging: string): (path: string, place: string) => void {
  const nameFor = createNaming(disk, staging)
  return (path, place) => disk.renameSync(place, nameFor(path))
}

/** The directory of earlier files, in that of the kept ones. */
const earlierName = '.earlier'

/** Creates the function that keeps an earlier file for which there is no place any more. */
export function createKeepEarlier(disk: Disk, staging: string): (path: string, from: string) => void {
  const nameFor = createNaming(disk, staging)
  return (path, from) => disk.renameSync(from, nameFor(`${earlierName}/${path}`))
}

/** Creates the function that returns the path of a kept file in staging, whose directory it makes. */
function createNaming(disk: Disk, staging: string): (path: string) => string {
  const made = new Set<string>()

  function makeDirectory(path: string): string {
    const directory = path === '' ? `${staging}/displaced` : `${staging}/displaced/${path}`
    if (made.has(path)) return directory
    if (path !== '') makeDirectory(parentOf(path))
    try {
      disk.mkdirSync(directory, 0o700)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    }
    made.add(path)
    return directory
  }

  return path => `${makeDirectory(parentOf(path))}/${nameOf(path)}`
}

function isEdited(
  { disk, placedAtMs, files }: DisplacingNeeds,
  digester: Digester,
  { path, place }: { path: string; place: string }
): boolean {
  const stats = disk.lstatSync(place, { throwIfNoEntry: false })
  // svc never put a directory where a file is listed.
  if (stats === undefined || stats.isDirectory()) return false
  const file = files.get(path)
  if (file === undefined) return true
  if (stats.ctimeMs < placedAtMs - tickMs && isAsPlaced(stats, file)) return false
  const digest = stats.isSymbolicLink() ? digester.link(place) : stats.isFile() ? digester.file(place, file) : null
  return digest === null || Buffer.from(digest.sha256).toString('hex') !== file.sha256
}

function isAsPlaced(stats: Stats, { size, mtimeMs }: PlacedFile): boolean {
  const isSameTime = mtimeMs === undefined || mtimeMs === null || Math.abs(stats.mtimeMs - mtimeMs) < sameTimeMs
  return stats.size === size && isSameTime
}

/** Returns whether the file now has the second name. */
function link(disk: Disk, place: string, kept: string): boolean {
  try {
    disk.linkSync(place, kept)
    return true
  } catch (error) {
    // An interrupted revert may have made it before.
    return (error as NodeJS.ErrnoException).code === 'EEXIST'
  }
}

/** Files that were edited and kept. */
export interface Displaced {
  /** The name of their directory in the target. */
  directory: string
  /** Some of their paths. */
  paths: string[]
  count: number
  /** The earlier files that could not be put back. svc's copies of them are in the directory, below `.earlier`. */
  notBack?: string[]
}

/** Moves the kept files from staging into the target. Returns null if there are none. */
export function publishDisplaced(
  disk: Disk,
  {
    root,
    staging,
    deployId,
    notBack = []
  }: { root: HeldDirectory; staging: string; deployId: string; notBack?: readonly string[] }
): Displaced | null {
  const from = `${staging}/displaced`
  if (disk.lstatSync(from, { throwIfNoEntry: false }) === undefined) return null
  const found = { paths: [] as string[], count: 0 }
  list(disk, { directory: from, prefix: '' }, found)
  for (let number = 1; ; number++) {
    const directory = `${displacedPrefix}${deployId}${number === 1 ? '' : `-${number}`}`
    if (disk.lstatSync(`${root.path}/${directory}`, { throwIfNoEntry: false }) !== undefined) continue
    disk.renameSync(from, `${root.path}/${directory}`)
    return { directory, ...found, ...(notBack.length > 0 && { notBack: notBack.slice(0, maxPaths) }) }
  }
}

function list(
  disk: Disk,
  { directory, prefix }: { directory: string; prefix: string },
  found: { paths: string[]; count: number }
): void {
  for (const name of disk.readdirSync(directory).sort()) {
    const path = `${directory}/${name}`
    if (prefix === '' && name === earlierName) continue
    if (disk.lstatSync(path).isDirectory()) {
      list(disk, { directory: path, prefix: `${prefix}${name}/` }, found)
    } else {
      found.count++
      if (found.paths.length < maxPaths) found.paths.push(`${prefix}${name}`)
    }
  }
}
