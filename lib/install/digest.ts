import { createHash } from 'node:crypto'
import type { Stats } from 'node:fs'
import { sha256 } from '../base/digests.js'
import type { Disk } from './disk.js'
import type { Digest } from './record.js'
import { openRegular } from './regular.js'

/** Number of bytes read at a time from a file to digest. */
const pieceBytes = 256 * 1024

/** The digest of a file. It covers at most the size that the file had when it was opened: the file may grow forever. */
export interface FileDigest extends Digest {
  stats: Stats
}

/** Computes digests of files and symbolic links. */
export interface Digester {
  /**
   * Returns null if `path` is not a regular file. A file of another size than `expected` is not read: its digest is
   * empty. So a sparse file of a terabyte keeps no thread busy.
   */
  file(path: string, expected?: { size: number }): FileDigest | null
  /** Returns null if `path` is not a symbolic link. */
  link(path: string): FileDigest | null
}

/**
 * Creates a digester for use by one thread. All its files share one buffer. `check` is called before each piece of a
 * large file, and throws if the work must be abandoned.
 */
export function createDigester(disk: Disk, check: () => void = () => {}): Digester {
  const piece = Buffer.allocUnsafeSlow(pieceBytes)
  return {
    file(path, expected) {
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
    link(path) {
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
