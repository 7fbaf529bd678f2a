/*
 * Finds what an extraction removes: owned files that the archive does not contain, or that are named, and directories
 * that svc made and that become empty.
 */

import { compileGlob } from '../../base/glob.js'
import { parentOf } from '../../base/files.js'
import { hasCode, Refusal } from '../../base/errors.js'
import type { EarlierFile, OwnedEntry } from '../../model/manifest.js'
import { compareTreePaths } from '../../base/shared/tree-text.js'
import { createDigester, findEntry, type FoundEntry } from './found-entry.js'
import type { Disk } from './disk.js'
import type { Folders } from './held.js'
import { otherGroup } from './kept-owner.js'
import { noContents } from './owned-tree.js'
import { type Exact, type Ownership, type Removes, setIdBits, type WantedEntry } from './ownership.js'
import type { Item, Plan, Records } from './plan.js'

/** A prune of more files than this, and of more than half of all, is refused unless it is forced. */
const maxPrunedUnasked = 50

/** A file or a link that is removed. */
export interface RemovedFile {
  path: string
  before: EarlierFile
  ino: number
  /** Whether it gives way to another type of entry (kept-owner.ts): it is removed before anything is put in place. */
  givesWay?: true
}

export interface RemovedDirectory {
  path: string
  mode: number
  mtimeMs: number
  gid?: number
  /** As of a file. */
  givesWay?: true
}

/** Returns what a manifest says about a removed directory. */
export function earlierDirectory({ mode, mtimeMs, gid }: RemovedDirectory): EarlierFile {
  return { size: 0, mode, sha256: noContents, mtimeMs, ...(gid !== undefined && { gid }) }
}

export interface RemovalNeeds {
  disk: Disk
  folders: Folders
  plan: Pick<Plan, 'folders'>
  /** Called before each piece of a file that is read. Throws if the work must be abandoned. */
  check?: (() => void) | undefined
}

/**
 * Returns the function that says whether an owned file that is not in the archive is to be removed. It must be called in
 * the order of `compareTreePaths`.
 */
export function createAsked(removes: Removes | null): (path: string) => boolean {
  if (removes === null) return () => false
  if (removes.kind === 'absent') {
    const protects = removes.protect.map(compileGlob)
    return path => !protects.some(glob => glob.matches(path))
  }
  const listed = linesOf(removes.paths)
  let next = 0
  return path => {
    while (next < listed.length && compareTreePaths(listed[next] as string, path) < 0) next++
    return listed[next] === path
  }
}

/** Creates what finds the files and directories to remove. It writes nothing. */
export function createRemoval({ removes, exact }: Ownership, { disk, folders, plan, check }: RemovalNeeds) {
  const finder = { disk, digester: createDigester(disk, check) }
  const owned = new Set<string>()
  const inArchive = new Set(plan.folders.map(({ path }) => path))
  const protects = (removes?.kind === 'absent' ? removes.protect : []).map(compileGlob)

  /** Returns whether everything in a directory is removed. */
  function becomesEmpty(path: string, gone: ReadonlySet<string>): boolean {
    const names = within(() => disk.readdirSync(folders.at(path)))
    return names?.every(name => gone.has(`${path}/${name}`)) ?? false
  }

  return {
    /** Whether the owned file at a path, which is not in the archive, is to be removed. Call it in canonical order. */
    isAsked: createAsked(removes),
    /** Reads a file; null if it is not there any more. */
    find: (known: Pick<OwnedEntry, 'path'>): FoundEntry | null =>
      within(() => findEntry(finder, folders.place(known.path), null)),
    /** Does the same, but believes a file with the time and the inode that svc gave it. */
    look: (known: OwnedEntry): FoundEntry | null => within(() => findEntry(finder, folders.place(known.path), known)),

    /** Notes a directory that may be removed. */
    noteDirectory(path: string): void {
      if (removes?.kind !== 'absent' || inArchive.has(path)) return
      if (!protects.some(glob => glob.matches(path) || glob.mayMatchBelow(path))) owned.add(path)
    },

    /** Returns the directories that become empty. */
    directories(removed: readonly RemovedFile[]): RemovedDirectory[] {
      const asked = exact === null ? owned : linesOf(exact.directories)
      const gone = new Set(removed.map(({ path }) => path))
      const found: RemovedDirectory[] = []
      // Longer paths first: what is in a directory is decided before the directory itself.
      for (const path of [...asked].sort((a, b) => depthOf(b) - depthOf(a))) {
        if (!becomesEmpty(path, gone)) continue
        const stats = within(() => disk.lstatSync(folders.place(path), { throwIfNoEntry: false }))
        if (!stats?.isDirectory()) continue
        gone.add(path)
        found.push({ path, mode: stats.mode, mtimeMs: stats.mtimeMs, ...otherGroup(stats) })
      }
      return found
    }
  }
}

/** Returns null if a directory on the way was removed, or replaced by a link: nothing of svc's is there. */
function within<T>(look: () => T | null): T | null {
  try {
    return look()
  } catch (error) {
    if (error instanceof Refusal || hasCode(error, 'ENOENT', 'ENOTDIR')) return null
    throw error
  }
}

function depthOf(path: string): number {
  let depth = 0
  for (let at = path; at !== ''; at = parentOf(at)) depth++
  return depth
}

function linesOf(bytes: Uint8Array): string[] {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('utf8').split('\n').filter(Boolean)
}

/** Returns the refusal of a prune that would remove most of the files of a project: probably the wrong directory. */
export function pruneTooMuch(count: number, owned: number): Refusal {
  const sentence =
    `Nothing was changed: ${count} of the ${owned} files that svc put into the target would be removed. ` +
    'If that is intended: svc push --prune=force'
  return new Refusal('conflict', 'prune_too_much', sentence)
}

/** Whether a prune of this number of files needs to be forced. */
export function isTooMuch(count: number, owned: number): boolean {
  return count > maxPrunedUnasked && count * 2 > owned
}

/* Makes the items of an extraction exactly what an earlier state of the target had (ownership.ts). */

/** Times that differ by less than this are the same: Node sets times in microseconds. */
export const exactTimeMs = 0.001
/** The umask with which a stage sets every mode itself. */
export const exactUmask = 0o7777

const permissionBits = 0o7777

/**
 * Gives each item its exact mode and time, and returns the SHA-256 that each must have, by its path. Refuses (`invalid`,
 * damaged_archive) an item that is not wanted.
 */
export function setExactly(items: readonly Item[], exact: Exact): ReadonlyMap<string, string> {
  const byPath = new Map(items.map(item => [item.path, item]))
  const digests = new Map<string, string>()
  for (const line of textOf(exact.wanted).split('\n')) {
    if (line === '') continue
    const { path, mode, mtimeMs, sha256, owner, gid } = JSON.parse(line) as WantedEntry
    const item = byPath.get(path)
    if (item === undefined) throw damaged(path)
    item.mode = item.kind === 'symlink' ? null : mode & permissionBits
    item.mtimeMs = mtimeMs
    if (owner !== undefined) item.owner = owner
    const group = gid === null ? process.getegid?.() : gid
    if (group !== undefined && item.kind !== 'symlink') item.gid = group
    if (gid === null) item.isUsualGroup = true
    // A list of files can come from a package, or from a helper of another user.
    const isGiven = owner !== undefined || (gid != null && item.kind === 'file')
    if (isGiven && item.mode !== null) item.mode &= ~setIdBits
    if (item.kind !== 'directory') digests.set(path, sha256)
  }
  return digests
}

/** Refuses (`invalid`, damaged_archive) staged items that are not what they must be. */
export function checkExactly(
  digests: ReadonlyMap<string, string>,
  { items, records }: { items: readonly Item[]; records: Records }
): void {
  for (const [index, { path, kind }] of items.entries()) {
    if (kind !== 'directory' && records.sha256(index).toString('hex') !== digests.get(path)) throw damaged(path)
  }
}

function textOf(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('utf8')
}

function damaged(path: string): Refusal {
  const sentence = `Nothing was changed: the kept contents of "${path}" are not those that were in the target`
  return new Refusal('invalid', 'damaged_archive', sentence)
}
