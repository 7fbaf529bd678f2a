import * as crypto from 'node:crypto'
import type { Disk } from './disk.js'
import type { Digest } from './record.js'

type OneShot = (algorithm: string, bytes: Uint8Array, encoding: 'buffer') => Buffer

/** One call where the runtime has it (Node 20.12, 21.7 and later), else an object for each digest: 2 us against 5. */
const oneShot = (crypto as { hash?: OneShot }).hash

/** SHA-256 of bytes that are all there. */
export function sha256(bytes: Uint8Array): Buffer {
  return oneShot === undefined ? crypto.createHash('sha256').update(bytes).digest() : oneShot('sha256', bytes, 'buffer')
}

/** Bytes read at once of a file that is digested. */
const pieceBytes = 256 * 1024

/** Digests files of one thread, with one buffer. */
export function createDigester(disk: Disk): { file(path: string): Digest; link(path: string): Digest } {
  const piece = Buffer.allocUnsafeSlow(pieceBytes)
  return {
    file(path) {
      const fd = disk.openSync(path, 'r')
      try {
        const { mode } = disk.fstatSync(fd)
        let bytesRead = disk.readSync(fd, piece, 0, pieceBytes, null)
        if (bytesRead < pieceBytes) return { size: bytesRead, mode, sha256: sha256(piece.subarray(0, bytesRead)) }
        const hash = crypto.createHash('sha256')
        let size = 0
        for (; bytesRead > 0; bytesRead = disk.readSync(fd, piece, 0, pieceBytes, null)) {
          hash.update(piece.subarray(0, bytesRead))
          size += bytesRead
        }
        return { size, mode, sha256: hash.digest() }
      } finally {
        disk.closeSync(fd)
      }
    },
    link(path) {
      const text = Buffer.from(disk.readlinkSync(path))
      return { size: text.length, mode: disk.lstatSync(path).mode, sha256: sha256(text) }
    }
  }
}
