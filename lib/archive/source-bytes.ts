/*
 * Reads the bytes of a source, whole or block by block. Refuses, by its name, a file that has changed since it was
 * found.
 */
import { closeSync, constants, openSync, readFileSync, readSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { sourceChanged, sourceUnreadable, watchOpened, type ZipSource } from './source.js'

/** Flags for reading. Non-blocking: opening a pipe that has replaced a file would otherwise wait for a writer. */
export const readOnly = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0)

/** Returns the contents of a file. Refuses (`unavailable`): file_vanished, file_changed, file_unreadable. */
export function readWhole(entry: ZipSource): Buffer {
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

/**
 * Reads the contents of a source without `onRead` into `room`, which is one byte larger than the contents. Refuses like
 * `readWhole`.
 */
export function readInto(room: Uint8Array, entry: ZipSource): void {
  const { path, kind, source, bytes, isGrowing } = entry
  if (kind === 'directory') return
  if (typeof source !== 'string') return room.set(source)
  if (kind === 'symlink') return void Buffer.from(room.buffer, room.byteOffset, room.length).write(source)
  withFile(entry, file => {
    // The extra byte shows that the file has grown.
    const most = isGrowing ? bytes : bytes + 1
    // Almost always one call: if it returns less than requested, it has returned everything.
    let length = readSync(file, room, 0, most, null)
    for (let more = length; length < bytes && more > 0; length += more)
      more = readSync(file, room, length, most - length, null)
    if (length !== bytes) throw sourceChanged(path)
  })
}

/** Opens a file and calls `use`, which reads it. Refuses like `readWhole`. */
export function withFile<T>(entry: ZipSource, use: (file: number) => T): T {
  const { path, source } = entry
  let file: number | null = null
  try {
    file = openSync(source as string, readOnly)
    const endReading = watchOpened(file, entry)
    const result = use(file)
    endReading()
    return result
  } catch (error) {
    throw sourceUnreadable(path, error)
  } finally {
    if (file !== null) closeSync(file)
  }
}

/** Memory of its own, which can be transferred to a thread. */
type Block = Buffer<ArrayBuffer>

/**
 * Yields the contents block by block, each in a buffer from `buffer`, and passes them to `onRead`. Refuses like
 * `readWhole`.
 */
export async function* blocksOf(entry: ZipSource, buffer: () => Promise<Block>): AsyncGenerator<Block> {
  const { onRead } = entry
  for await (const block of typeof entry.source === 'string'
    ? blocksOfFile(entry, buffer)
    : blocksOfBytes(entry.source, buffer)) {
    onRead?.(block)
    yield block
  }
}

async function* blocksOfBytes(bytes: Uint8Array, buffer: () => Promise<Block>): AsyncGenerator<Block> {
  for (let at = 0; at < bytes.length; ) {
    const block = await buffer()
    const length = Math.min(block.length, bytes.length - at)
    block.set(bytes.subarray(at, at + length))
    at += length
    yield block.subarray(0, length)
  }
}

async function* blocksOfFile(entry: ZipSource, buffer: () => Promise<Block>): AsyncGenerator<Block> {
  const { path, source, bytes, isGrowing } = entry
  const refuse = (error: unknown): never => {
    throw sourceUnreadable(path, error)
  }
  const opened = await open(source as string, readOnly).catch(refuse)
  try {
    const endReading = watchOpened(opened.fd, entry)
    for (let at = 0; ; ) {
      const block = await buffer()
      const length = isGrowing ? Math.min(block.length, bytes - at) : block.length
      const { bytesRead } = await opened.read(block, 0, length, null).catch(refuse)
      at += bytesRead
      if (at > bytes || (bytesRead === 0 && at !== bytes)) throw sourceChanged(path)
      if (bytesRead === 0) return endReading()
      yield block.subarray(0, bytesRead)
    }
  } finally {
    await opened.close()
  }
}
