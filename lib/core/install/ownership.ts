/*
 * What an extraction must know about the files that svc owns in the target: to find edited files, to prune, to keep what
 * it replaces for a way back, and to restore an earlier state exactly. Plain data, for threads and helper processes.
 */

import { type FileOwner, ownPrefix } from '../../model/manifest.js'
import { compileGlob, type Glob } from '../../base/glob.js'
import { hasCode, Refusal } from '../../base/errors.js'
import { compareTreePaths } from '../../base/shared/tree-text.js'
import type { Disk } from './disk.js'
import type { Folders } from './held.js'

/** What an extraction knows about the target, and may do about it. */
export interface Ownership {
  /** The owned tree (owned-tree.ts), its path or its contents; null if svc owns nothing there, or does not know what. */
  tree: string | Uint8Array | null
  /** Whether svc does not know what it owns: then svc calls no file that of somebody else. */
  isUnknown?: boolean
  /**
   * What happens to files that somebody edited and that would be replaced or removed. `ignore` and `warn` replace them;
   * `keep` leaves them as they are.
   */
  edited: 'ignore' | 'warn' | 'refuse' | 'keep'
  removes: Removes | null
  /** What the entries of the archive must be exactly; null: what the archive says. */
  exact: Exact | null
  /** The deployments of this project whose archives are kept: replaced files that came with them need no copy. */
  archives: readonly string[]
  /** Limit of the before-images (before-images.ts), and whether a deployment that exceeds it is refused. */
  before: { maxBytes: number; isRequired: boolean }
}

/** The owned files that are removed. */
export type Removes =
  /**
   * Those that the archive does not contain, except those that match a glob. `isForced`: however many they are;
   * `takesUnowned`: also those that svc did not put there, which are then kept for a way back.
   */
  | { kind: 'absent'; protect: readonly string[]; isForced: boolean; takesUnowned?: boolean }
  /** Those with these paths, one per line, in the order of `compareTreePaths`. */
  | { kind: 'listed'; paths: Uint8Array }

/** An exact change of a target. */
export interface Exact {
  /** A `WantedEntry` per line, as JSON, for each entry of the archive. */
  wanted: Uint8Array
  /** Directories that are removed if nothing else is in them, one path per line. */
  directories: Uint8Array
}

/** An entry that is to be in the target exactly so. A directory has the size 0 and 64 zeros. */
export interface WantedEntry {
  path: string
  /** File type and permission bits. */
  mode: number
  size: number
  sha256: string
  /** Modification time in milliseconds since 1970; null for a directory. */
  mtimeMs: number | null
  /** Absent if it is that of the process. */
  owner?: FileOwner
  /** The number of the group; null: that of the process; absent: any. */
  gid?: number | null
}

/*
 * What a deployment does about one entry of the target. A plan (compare.ts) and the deployment itself (reckon.ts) both
 * ask here, so a plan says what then happens. An edit that equals the new contents is not lost, and does not count.
 */

/** What a deployment knows about an entry before it decides. */
export interface Known {
  /** Whether there is an entry in the target. */
  isThere: boolean
  /** Whether it has the contents and the type that svc put there; null: svc never put anything there. */
  isAsOwned: boolean | null
  /**
   * Whether it has the contents and the type that the archive has; null: the archive does not contain the path, and
   * svc would remove it.
   */
  isAsWanted: boolean | null
}

/** The decision about an entry. */
export interface Decision {
  /** `leave`: nothing is lost by it; `keep`: it stays because somebody else has changed it. */
  does: 'add' | 'leave' | 'replace' | 'remove' | 'keep'
  /** Whether what somebody edited, or put there without svc, is lost in the target. Policy "drift" is about these. */
  losesEdit: boolean
  /** Where the earlier contents are kept: with the deployment that put them there, or in the before-images. */
  keptIn: 'deployment' | 'before' | null
}

/** Decides about one entry. */
export function decide(
  { isThere, isAsOwned, isAsWanted }: Known,
  { edited, removes, isUnknown = false }: Pick<Ownership, 'edited' | 'removes' | 'isUnknown'>
): Decision {
  const lost = {
    losesEdit: isAsOwned === false || (isAsOwned === null && !isUnknown),
    keptIn: isAsOwned ? 'deployment' : 'before'
  } as const
  const none = { losesEdit: false, keptIn: null } as const
  if (!isThere) {
    // Somebody removed a file that an exact change would bring back.
    if (isAsWanted !== null && isAsOwned !== null && edited === 'keep') return { does: 'keep', ...none }
    return { does: isAsWanted === null ? 'leave' : 'add', ...none }
  }
  if (isAsWanted === true) return { does: 'leave', ...none }
  if (isAsOwned !== true && edited === 'keep') return { does: 'keep', ...none }
  if (isAsWanted === false) return { does: 'replace', ...lost }
  // A file that svc does not know any more as its own is not pruned, unless those that it never knew are.
  const isTaken = isAsOwned === null && takesUnowned(removes)
  if (isAsOwned !== true && removes?.kind !== 'listed' && !isTaken) return { does: 'keep', ...none }
  return { does: 'remove', ...lost }
}

/*
 * Finds the files and links of a target that svc did not put there and that the archive does not contain, for a plan
 * (compare.ts) and a deployment (reckon.ts) that removes them. Links are not followed, and file systems that are mounted
 * in the target are not entered.
 */

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

export interface UnownedNeeds {
  disk: Disk
  folders: Folders
  /** The globs of paths that stay. */
  protect: readonly string[]
  /** The paths that svc owns, and those of the archive. */
  known: ReadonlySet<string>
  /** Paths that are never removed (guard.ts). */
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
    // It could not be brought back: svc gives no file away that runs with the rights of its owner (removal.ts).
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
