/* Digests of sources, for a tree (tree.ts). A thread computes them like it packs segments: with synchronous calls. */
import { createHash } from 'node:crypto'
import { readSync } from 'node:fs'
import { sha256 } from '../base/sha256.js'
import { withFile } from './source-bytes.js'
import { sourceChanged, type ZipSource } from './source.js'

/** Sources for a thread to digest. */
export interface DigestTask {
  kind: 'digest'
  /** Files whose contents are on the disk, and symbolic links. */
  sources: readonly ZipSource[]
}

/** Length of a SHA-256 in bytes. */
export const digestBytes = 32
/** Number of bytes read at a time. */
const pieceBytes = 256 * 1024

/**
 * Returns the SHA-256 of each source, one after the other, in memory that can be transferred to another thread. Refuses
 * (`unavailable`): file_vanished, file_changed, file_unreadable, naming the file.
 */
export function digestSources(sources: readonly ZipSource[]): Uint8Array<ArrayBuffer> {
  const digests = new Uint8Array(new ArrayBuffer(sources.length * digestBytes))
  const piece = Buffer.allocUnsafeSlow(pieceBytes)
  for (const [at, source] of sources.entries()) digests.set(digestOf(source, piece), at * digestBytes)
  return digests
}

function digestOf(source: ZipSource, piece: Buffer): Buffer {
  if (typeof source.source !== 'string') return sha256(source.source)
  return source.kind === 'symlink' ? sha256(Buffer.from(source.source)) : digestFile(source, piece)
}

function digestFile(entry: ZipSource, piece: Buffer): Buffer {
  const { path, bytes } = entry
  return withFile(entry, fd => {
    let length = readSync(fd, piece, 0, pieceBytes, null)
    if (length === bytes && bytes < pieceBytes) return sha256(piece.subarray(0, length))
    const hash = createHash('sha256').update(piece.subarray(0, length))
    for (let more = length; more > 0 && length <= bytes; length += more) {
      more = readSync(fd, piece, 0, pieceBytes, null)
      hash.update(piece.subarray(0, more))
    }
    if (length !== bytes) throw sourceChanged(path)
    return hash.digest()
  })
}
