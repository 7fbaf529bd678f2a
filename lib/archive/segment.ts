/*
 * Packs a part of a zip: some sources, read whole and packed by yazl in memory, as a zip of their own (join.ts). yazl
 * deflates in the thread pool, so the event loop is not blocked.
 */
import { once } from 'node:events'
import type { Readable } from 'node:stream'
import { ZipFile } from 'yazl'
import { isWorthDeflating, unixMode, type ZipSource } from './source.js'
import { readWhole } from './source-bytes.js'

/** Packs sources into a zip. Refuses (`unavailable`): file_vanished, file_changed, file_unreadable, naming the file. */
export async function packSegment(sources: readonly ZipSource[], level: number): Promise<Buffer> {
  const zip = new ZipFile()
  const output = zip.outputStream as Readable
  const pieces: Buffer[] = []
  output.on('data', (piece: Buffer) => pieces.push(piece))
  const ended = once(output, 'end')
  for (const source of sources) add(zip, source, level)
  zip.end()
  await ended
  return Buffer.concat(pieces)
}

function add(zip: ZipFile, source: ZipSource, level: number): void {
  const { path, kind } = source
  const about = { mode: unixMode(source), mtime: new Date(source.mtimeMs) }
  const compressionLevel = isWorthDeflating(source) ? level : 0
  if (kind === 'directory') zip.addEmptyDirectory(path, about)
  else if (kind === 'symlink') zip.addBuffer(Buffer.from(source.source), path, { ...about, compressionLevel })
  else zip.addBuffer(readWhole(source), path, { ...about, compressionLevel })
}
