/*
 * Finds the files and links of a target that svc did not put there and that the archive does not contain, for a plan
 * (compare.ts) and a deployment (reckon.ts) that removes them. Links are not followed, and file systems that are mounted
 * in the target are not entered.
 */
import { compileGlob, type Glob } from '../base/glob.js'
import { hasCode, Refusal } from '../base/errors.js'
import { ownPrefix } from '../model/maintenance.js'
import { compareTreePaths } from '../shared/tree-text.js'
import type { Disk } from './disk.js'
import type { Folders } from './folders.js'
import type { Ownership, Removes } from './ownership.js'

/** The setuid and the setgid bit. */
export const setIdBits = 0o6000
/** Maximum number of entries that are looked at. */
const maxEntries = 200_000

/** The files that svc did not put into a target. */
export interface Unowned {
  /** Those that are removed, in canonical order. */
  files: Array<{ path: string; size: number }>
  /** Those that a glob protects, in canonical order. */
  protected: Array<{ path: string; size: number; glob: string }>
  /** The directories that contain files to be removed, and belong to the user and the group that would make them again. */
  directories: string[]
}

/** What `findUnowned` needs. */
export interface UnownedNeeds {
  disk: Disk
  folders: Folders
  /** The globs of paths that stay. */
  protect: readonly string[]
  /** The paths that svc owns, and those of the archive. */
  known: ReadonlySet<string>
  /** Paths that are never removed (reserved.ts). */
  reserved: readonly string[]
  /** Called before each directory. Throws if the work must be abandoned. */
  check(): void
}

/** Whether a deployment removes what svc did not put there. */
export function takesUnowned(removes: Removes | null): removes is Extract<Removes, { kind: 'absent' }> {
  return removes?.kind === 'absent' && removes.takesUnowned === true
}

/** Returns the limits of the before-images. What svc did not put there is removed only if all of it is kept. */
export function beforeLimits(removes: Removes | null, before: Ownership['before']): Ownership['before'] {
  return takesUnowned(removes) ? { ...before, isRequired: true } : before
}

/** Finds them. Refuses (`too_large`, too_many_unowned) a target with too many entries. */
export function findUnowned({ disk, folders, protect, known, reserved, check }: UnownedNeeds): Unowned {
  const found: Unowned = { files: [], protected: [], directories: [] }
  const globs = protect.map(text => ({ text, ...compileGlob(text) }))
  const kept = new Set(reserved)
  const [user, group] = [process.geteuid?.(), process.getegid?.()]
  const { dev } = disk.lstatSync(`${folders.at('')}/.`)
  const isSameFile = sameNames(known, { disk, folders })
  let entries = 0

  /** Returns whether something in the directory is removed. `heldBy` is the glob that protects it. */
  function visit(directory: string, heldBy: string | null): boolean {
    check()
    let isAny = false
    for (const name of disk.readdirSync(folders.at(directory))) {
      if (directory === '' && name.startsWith(ownPrefix)) continue
      if (++entries > maxEntries) throw tooMany()
      const path = directory === '' ? name : `${directory}/${name}`
      if (look(path, heldBy)) isAny = true
    }
    return isAny
  }

  function look(path: string, heldByAbove: string | null): boolean {
    const stats = disk.lstatSync(folders.place(path), { throwIfNoEntry: false })
    if (stats === undefined || kept.has(path)) return false
    const heldBy = heldByAbove ?? globs.find(glob => glob.matches(path))?.text ?? null
    if (stats.isDirectory()) {
      if (stats.dev !== dev || !visit(path, heldBy)) return false
      if (stats.uid === user && stats.gid === group && !known.has(path) && !mayHoldBelow(globs, path))
        found.directories.push(path)
      return true
    }
    if (!(stats.isFile() || stats.isSymbolicLink()) || known.has(path) || isSameFile(path, stats.ino)) return false
    // It could not be brought back: svc gives no file away that runs with the rights of its owner (exact-items.ts).
    if ((stats.mode & setIdBits) !== 0) return false
    const { size } = stats
    if (heldBy === null) found.files.push({ path, size })
    else found.protected.push({ path, size, glob: heldBy })
    return heldBy === null
  }

  visit('', null)
  const inOrder = (a: { path: string }, b: { path: string }): number => compareTreePaths(a.path, b.path)
  found.files.sort(inOrder)
  found.protected.sort(inOrder)
  return found
}

function mayHoldBelow(globs: readonly Glob[], path: string): boolean {
  return globs.some(glob => glob.matches(path) || glob.mayMatchBelow(path))
}

/** Returns the test for a known file under another name: a file system may ignore case, or the form of letters. */
function sameNames(
  known: ReadonlySet<string>,
  { disk, folders }: Pick<UnownedNeeds, 'disk' | 'folders'>
): (path: string, ino: number) => boolean {
  const folded = (path: string): string => path.normalize('NFC').toLowerCase()
  const names = new Map<string, string>()
  for (const path of known) names.set(folded(path), path)
  return (path, ino) => {
    const name = names.get(folded(path))
    if (name === undefined) return false
    try {
      return disk.lstatSync(folders.place(name), { throwIfNoEntry: false })?.ino === ino
    } catch (error) {
      if (error instanceof Refusal || hasCode(error, 'ENOENT', 'ENOTDIR')) return false
      throw error
    }
  }
}

function tooMany(): Refusal {
  const sentence =
    `Nothing was changed: the target contains more than ${maxEntries} entries, too many to remove those that svc did ` +
    'not put there'
  return new Refusal('too_large', 'too_many_unowned', sentence)
}
