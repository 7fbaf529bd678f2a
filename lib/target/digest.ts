import * as crypto from 'node:crypto'
import type { Stats } from 'node:fs'
import type { Disk } from './disk.js'
import type { Digest } from './record.js'
import { openRegular } from './regular.js'

type OneShot = (algorithm: string, bytes: Uint8Array, encoding: 'buffer') => Buffer

/** One call where the runtime has it (Node 20.12, 21.7 and later), else an object for each digest: 2 us against 5. */
const oneShot = (crypto as { hash?: OneShot }).hash

/** SHA-256 of bytes that are all there. */
export function sha256(bytes: Uint8Array): Buffer {
  return oneShot === undefined ? crypto.createHash('sha256').update(bytes).digest() : oneShot('sha256', bytes, 'buffer')
}

/** Bytes read at once of a file that is digested. */
const pieceBytes = 256 * 1024

/** What was digested of a file: never more than it had when it was opened, which may be growing for ever. */
export interface FileDigest extends Digest {
  stats: Stats
}

export interface Digester {
  /** Null: there is no regular file. */
  file(path: string): FileDigest | null
  /** Null: there is no symbolic link. */
  link(path: string): Digest | null
}

/** Digests files of one thread, with one buffer. */
export function createDigester(disk: Disk): Digester {
  const piece = Buffer.allocUnsafeSlow(pieceBytes)
  return {
    file(path) {
      const opened = openRegular(disk, path)
      if (opened === null) return null
      const { fd, stats } = opened
      try {
        const { mode } = stats
        let bytesRead = disk.readSync(fd, piece, 0, pieceBytes, null)
        if (bytesRead < pieceBytes) {
          return { size: bytesRead, mode, sha256: sha256(piece.subarray(0, bytesRead)), stats }
        }
        const hash = crypto.createHash('sha256')
        let size = 0
        for (; bytesRead > 0; bytesRead = disk.readSync(fd, piece, 0, Math.min(pieceBytes, stats.size - size), null)) {
          hash.update(piece.subarray(0, bytesRead))
          size += bytesRead
          if (size >= stats.size) break
        }
        return { size, mode, sha256: hash.digest(), stats }
      } finally {
        disk.closeSync(fd)
      }
    },
    link(path) {
      try {
        const text = Buffer.from(disk.readlinkSync(path))
        return { size: text.length, mode: disk.lstatSync(path).mode, sha256: sha256(text) }
      } catch (error) {
        const { code } = error as NodeJS.ErrnoException
        if (code === 'EINVAL' || code === 'ENOENT' || code === 'ENOTDIR') return null
        throw error
      }
    }
  }
}
