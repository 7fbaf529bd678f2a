/*
 * Finds out what is at a path of a target, for comparisons that change nothing. Contents are not read if the owned tree
 * proves that a file is the one that svc put there: the same size, times and inode.
 */

import type { Stats } from 'node:fs'
import { createHash } from 'node:crypto'
import type { OwnedEntry } from '../../model/manifest.js'
import { sha256 } from '../../base/digests.js'
import { type Disk, openRegular } from './disk.js'
import type { Digest } from './plan.js'

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
 * Returns the file or link at `place`, a path to use in calls (held.ts), or null if there is neither. Throws the
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

function isUntouched(stats: Stats, { mode, size, mtimeMs, ino, ctimeMs = stats.ctimeMs }: OwnedFile): boolean {
  const isSameType = (stats.mode & typeBits) === (mode & typeBits)
  const isSameTime = stats.mtimeMs === mtimeMs && stats.ctimeMs === ctimeMs
  return isSameType && stats.size === size && isSameTime && stats.ino === ino
}

/** Returns whether an entry has other contents, or is of another type, than svc put in place. */
export function isEdited(found: FoundEntry | null, owned: OwnedFile): boolean {
  return found === null || found.sha256 !== owned.sha256 || (found.mode & typeBits) !== (owned.mode & typeBits)
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('hex')
}

/** Number of bytes read at a time from a file to digest. */
const pieceBytes = 256 * 1024

/** The digest of a file. It covers at most the size that the file had when it was opened: the file may grow forever. */
export interface FileDigest extends Digest {
  stats: Stats
}

/** Computes digests of files and symbolic links. */
export type Digester = ReturnType<typeof createDigester>

/**
 * Creates a digester for use by one thread. All its files share one buffer. `check` is called before each piece of a
 * large file, and throws if the work must be abandoned.
 */
export function createDigester(disk: Disk, check: () => void = () => {}) {
  const piece = Buffer.allocUnsafeSlow(pieceBytes)
  return {
    /**
     * Returns null if `path` is not a regular file. A file of another size than `expected` is not read: its digest is
     * empty. So a sparse file of a terabyte keeps no thread busy.
     */
    file(path: string, expected?: { size: number }): FileDigest | null {
      const opened = openRegular(disk, path)
      if (opened === null) return null
      const { fd, stats } = opened
      try {
        const { mode, gid } = stats
        if (expected !== undefined && stats.size !== expected.size)
          return { size: stats.size, mode, gid, sha256: new Uint8Array(), stats }
        let bytesRead = disk.readSync(fd, piece, 0, pieceBytes, null)
        if (bytesRead < pieceBytes) {
          return { size: bytesRead, mode, gid, sha256: sha256(piece.subarray(0, bytesRead)), stats }
        }
        const hash = createHash('sha256')
        let size = 0
        for (; bytesRead > 0; bytesRead = disk.readSync(fd, piece, 0, Math.min(pieceBytes, stats.size - size), null)) {
          check()
          hash.update(piece.subarray(0, bytesRead))
          size += bytesRead
          if (size >= stats.size) break
        }
        return { size, mode, gid, sha256: hash.digest(), stats }
      } finally {
        disk.closeSync(fd)
      }
    },

    /** Returns null if `path` is not a symbolic link. */
    link(path: string): FileDigest | null {
      try {
        const text = Buffer.from(disk.readlinkSync(path))
        const stats = disk.lstatSync(path)
        return { size: text.length, mode: stats.mode, gid: stats.gid, sha256: sha256(text), stats }
      } catch (error) {
        const { code } = error as NodeJS.ErrnoException
        if (code === 'EINVAL' || code === 'ENOENT' || code === 'ENOTDIR') return null
        throw error
      }
    }
  }
}
