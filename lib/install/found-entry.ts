/*
 * Finds out what is at a path of a target, for comparisons that change nothing. Contents are not read if the owned tree
 * proves that a file is the one that svc put there: the same size, modification time and inode.
 */
import type { Stats } from 'node:fs'
import type { OwnedEntry } from '../model/tree.js'
import type { Digester } from './digest.js'
import type { Disk } from './disk.js'

/** An entry of a target. */
export interface FoundEntry {
  kind: 'file' | 'symlink'
  mode: number
  gid: number
  size: number
  sha256: string
  stats: Stats
}

/** A file as svc put it in place. */
export type OwnedFile = Omit<OwnedEntry, 'path' | 'since'>

/** What `findEntry` needs. */
export interface Finder {
  disk: Disk
  digester: Digester
  /** Called with an entry that is neither a file nor a link. */
  onOther?(stats: Stats): void
}

const typeBits = 0o170000

/**
 * Returns the file or link at `place`, a path to use in calls (folders.ts), or null if there is neither. Throws the
 * system's error if a file cannot be read.
 */
export function findEntry(
  { disk, digester, onOther }: Finder,
  place: string,
  owned: OwnedFile | null
): FoundEntry | null {
  const stats = disk.lstatSync(place, { throwIfNoEntry: false })
  if (stats === undefined) return null
  if (stats.isFile()) {
    if (owned !== null && isUntouched(stats, owned)) {
      const { mode, gid, size } = stats
      return { kind: 'file', mode, gid, size, sha256: owned.sha256, stats }
    }
    const found = digester.file(place)
    return found === null ? null : { ...found, kind: 'file', sha256: hex(found.sha256) }
  }
  if (!stats.isSymbolicLink()) {
    onOther?.(stats)
    return null
  }
  const found = digester.link(place)
  return found === null ? null : { ...found, kind: 'symlink', sha256: hex(found.sha256), stats }
}

function isUntouched(stats: Stats, { mode, size, mtimeMs, ino }: OwnedFile): boolean {
  const isSameType = (stats.mode & typeBits) === (mode & typeBits)
  return isSameType && stats.size === size && stats.mtimeMs === mtimeMs && stats.ino === ino
}

/** Returns whether an entry has other contents, or is of another type, than svc put in place. */
export function isEdited(found: FoundEntry | null, owned: OwnedFile): boolean {
  return found === null || found.sha256 !== owned.sha256 || (found.mode & typeBits) !== (owned.mode & typeBits)
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('hex')
}
