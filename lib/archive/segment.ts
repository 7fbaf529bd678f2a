/* A part of a zip: some sources, read whole and packed by yazl in memory, as a zip of their own (join.ts). */
import { closeSync, constants, openSync, readFileSync } from 'node:fs'
import { once } from 'node:events'
import type { Readable } from 'node:stream'
import { ZipFile } from 'yazl'
import { isWorthDeflating, sourceChanged, sourceUnreadable, unixMode, type ZipSource } from './source.js'

/** Not blocking: a pipe that took the place of a file would otherwise wait for a writer. */
export const readOnly = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0)

/** Packs sources. Refuses (`unavailable`): file_vanished, file_changed, file_unreadable, naming the file. */
export async function packSegment(sources: readonly ZipSource[], level: number): Promise<Uint8Array<ArrayBuffer>> {
  const zip = new ZipFile()
  const output = zip.outputStream as Readable
  const pieces: Buffer[] = []
  output.on('data', (piece: Buffer) => pieces.push(piece))
  const ended = once(output, 'end')
  for (const source of sources) add(zip, source, level)
  zip.end()
  await ended
  return join(pieces)
}

function add(zip: ZipFile, source: ZipSource, level: number): void {
  const { path, kind } = source
  if (kind === 'directory') zip.addEmptyDirectory(path, statOf(source))
  else if (kind === 'symlink') zip.addBuffer(Buffer.from(source.source), path, packingOf(source, level))
  else zip.addBuffer(readWhole(source), path, packingOf(source, level))
}

function statOf(source: ZipSource): { mode: number; mtime: Date } {
  return { mode: unixMode(source), mtime: new Date(source.mtimeMs) }
}

/** What yazl is told of a source. */
export function packingOf(source: ZipSource, level: number): { mode: number; mtime: Date; compressionLevel: number } {
  return { ...statOf(source), compressionLevel: isWorthDeflating(source) ? level : 0 }
}

function readWhole({ path, source, bytes, isGrowing, onRead }: ZipSource): Buffer {
  if (typeof source !== 'string') {
    onRead?.(source)
    return Buffer.from(source.buffer, source.byteOffset, source.length)
  }
  let file: number | null = null
  try {
    file = openSync(source, readOnly)
    const found = readFileSync(file)
    const whole = isGrowing ? found.subarray(0, bytes) : found
    if (whole.length !== bytes) throw sourceChanged(path)
    onRead?.(whole)
    return whole
  } catch (error) {
    throw sourceUnreadable(path, error)
  } finally {
    if (file !== null) closeSync(file)
  }
}

/** In memory of its own, which can be handed to another thread. */
function join(pieces: readonly Buffer[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(pieces.reduce((sum, { length }) => sum + length, 0))
  let at = 0
  for (const piece of pieces) {
    whole.set(piece, at)
    at += piece.length
  }
  return whole
}
