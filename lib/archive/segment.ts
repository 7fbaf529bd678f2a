/* A part of a zip: some sources, read whole and packed by yazl in memory, as a zip of their own (join.ts). */
import { closeSync, constants, openSync, readFileSync, readSync } from 'node:fs'
import { once } from 'node:events'
import type { Readable } from 'node:stream'
import { ZipFile } from 'yazl'
import { checkOpened, isWorthDeflating, sourceChanged, sourceUnreadable, unixMode, type ZipSource } from './source.js'

/** Not blocking: a pipe that took the place of a file would otherwise wait for a writer. */
export const readOnly = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0)

/** The contents of a file; `isDeflated`: yazl will deflate them, and not keep them. */
type ReadFile = (source: ZipSource, isDeflated: boolean) => Buffer

/** Packs sources. Refuses (`unavailable`): file_vanished, file_changed, file_unreadable, naming the file. */
export async function packSegment(
  sources: readonly ZipSource[], level: number, read: ReadFile = readWhole
): Promise<Uint8Array<ArrayBuffer>> {
  const zip = new ZipFile()
  const output = zip.outputStream as Readable
  const pieces: Buffer[] = []
  output.on('data', (piece: Buffer) => pieces.push(piece))
  const ended = once(output, 'end')
  for (const source of sources) add(zip, source, level, read)
  zip.end()
  await ended
  return join(pieces)
}

function add(zip: ZipFile, source: ZipSource, level: number, read: ReadFile): void {
  const { path, kind } = source
  const packing = packingOf(source, level)
  if (kind === 'directory') zip.addEmptyDirectory(path, statOf(source))
  else if (kind === 'symlink') zip.addBuffer(Buffer.from(source.source), path, packing)
  else zip.addBuffer(read(source, packing.compressionLevel > 0), path, packing)
}

function statOf(source: ZipSource): { mode: number; mtime: Date } {
  return { mode: unixMode(source), mtime: new Date(source.mtimeMs) }
}

/** What yazl is told of a source. */
export function packingOf(source: ZipSource, level: number): { mode: number; mtime: Date; compressionLevel: number } {
  return { ...statOf(source), compressionLevel: isWorthDeflating(source) ? level : 0 }
}

function readWhole(entry: ZipSource): Buffer {
  const { path, source, bytes, isGrowing, onRead } = entry
  if (typeof source !== 'string') {
    onRead?.(source)
    return Buffer.from(source.buffer, source.byteOffset, source.length)
  }
  return withFile(entry, file => {
    const found = readFileSync(file)
    const whole = isGrowing ? found.subarray(0, bytes) : found
    if (whole.length !== bytes) throw sourceChanged(path)
    onRead?.(whole)
    return whole
  })
}

function withFile(entry: ZipSource, use: (file: number) => Buffer): Buffer {
  const { path, source } = entry
  let file: number | null = null
  try {
    file = openSync(source as string, readOnly)
    checkOpened(file, entry)
    return use(file)
  } catch (error) {
    throw sourceUnreadable(path, error)
  } finally {
    if (file !== null) closeSync(file)
  }
}

/**
 * Reads files into the same memory again and again: what waits for the collector was 100 MB a thread. Only for one that
 * deflates on the spot (hasten.ts), so that a file is done with when the next one is read.
 */
export function createReuse(): ReadFile {
  const minRoomBytes = 64 * 1024
  let room = Buffer.alloc(0)
  return (source, isDeflated) => {
    if (!isDeflated || source.isGrowing || typeof source.source !== 'string') return readWhole(source)
    // A byte more than there should be tells that the file has grown.
    if (room.length <= source.bytes) room = Buffer.allocUnsafeSlow(Math.max(minRoomBytes, source.bytes + 1))
    return readInto(room, source)
  }
}

function readInto(room: Buffer, entry: ZipSource): Buffer {
  const { path, bytes } = entry
  return withFile(entry, file => {
    // Nearly always one call: it brings what there is, and that it was less than asked for says that it was all.
    let length = readSync(file, room, 0, bytes + 1, null)
    for (let more = length; length < bytes && more > 0; length += more) more = readSync(file, room, length, bytes + 1 - length, null)
    if (length !== bytes) throw sourceChanged(path)
    return room.subarray(0, bytes)
  })
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
