/*
 * Writing a zip with yazl: entries in the order in which they come, written front to back, so that `out` may be a
 * socket as well as a file.
 *
 * `addBuffer` deflates in libuv's threads as soon as it is called, so files are read whole and given to it several at
 * a time: that is where the speed comes from. yazl does not say when it has written one, but it asks for the stream of
 * an entry only when everything before it is written; so the last file of each batch is streamed, and a batch is begun
 * only when the one before the last has left. What yazl was given as a buffer it would keep, compressed, until the end:
 * when a batch has left, it is taken from yazl's entries (release).
 *
 * What yazl costs: a deflate stream for each file, and a look through all entries for each. Seen: test/bench/pack.ts.
 */
import { EventEmitter, once } from 'node:events'
import { closeSync, constants, openSync, readFileSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { Readable, type PassThrough, type Writable } from 'node:stream'
import { ZipFile } from 'yazl'
import { closing } from '../base/closing.js'
import { checkSourceName, isWorthDeflating, sourceChanged, sourceUnreadable, unixMode, type LastSource, type ZipSource } from './source.js'

export interface ZipProgress {
  entries: number
  /** Of the sources, before compression. */
  bytes: number
}

export interface WriteZipOptions {
  /** 0 (store) to 9. */
  level?: number
  /** Called as the zip is written, with what was read for it. */
  onProgress?: (progress: ZipProgress) => void
  last?: LastSource
  signal?: AbortSignal | undefined
}

export interface ZipWritten extends ZipProgress {
  /** Of the zip. */
  zipBytes: number
}

export const defaultLevel = 6
/** A batch ends with the file that reaches one of these; two batches are on their way at a time. */
const batchBytes = 16 * 1024 * 1024
const batchEntries = 64
/** A larger file is streamed. */
const maxWholeBytes = 16 * 1024 * 1024
const readBytes = 256 * 1024
/** Not blocking: a pipe that took the place of a file would otherwise wait for a writer. */
const readOnly = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0)

/**
 * Writes a zip of `sources` to `out`, which stays open: the one who opened it ends it, or throws it away when this
 * rejects. Refuses (`unavailable`): file_vanished, file_changed, file_unreadable, naming the file; (`invalid`)
 * name_not_packable. An aborted signal's reason is thrown unchanged.
 */
export async function writeZip(
  sources: Iterable<ZipSource> | AsyncIterable<ZipSource>, out: Writable, options: WriteZipOptions = {}
): Promise<ZipWritten> {
  const { level = defaultLevel, onProgress = () => {}, last, signal } = options
  signal?.throwIfAborted()
  return closing(async defer => {
    const zip = new ZipFile()
    const zipped = zip.outputStream as PassThrough
    const written: ZipWritten = { entries: 0, bytes: 0, zipBytes: 0 }
    // The first failure of any part ends the others, and is the one that travels.
    const ending = new AbortController()
    const fail = (error: unknown): void => ending.abort(error)
    ending.signal.addEventListener('abort', () => zipped.destroy(ending.signal.reason))

    const abort = (): void => fail(signal?.reason)
    const close = (): void => fail(new Error('the output was closed before the zip was complete'))
    signal?.addEventListener('abort', abort)
    out.on('error', fail).on('close', close)
    zip.on('error', fail)
    defer(() => {
      signal?.removeEventListener('abort', abort)
      out.off('error', fail).off('close', close)
    })
    if (out.destroyed) close()

    const add = createAdding(zip, { level, written, ended: ending.signal, fail })
    async function fill(): Promise<void> {
      for await (const source of sources) {
        ending.signal.throwIfAborted()
        await add(source)
      }
      if (last !== undefined) addLast(zip, last, { ended: ending.signal, fail })
      zip.end()
    }
    async function drain(): Promise<void> {
      for await (const bytes of zipped) {
        written.zipBytes += bytes.length
        if (!out.write(bytes)) await once(out, 'drain', { signal: ending.signal })
        onProgress({ entries: written.entries, bytes: written.bytes })
      }
    }
    await Promise.all([fill().catch(fail), drain().catch(fail)])
    ending.signal.throwIfAborted()
    return written
  })
}

interface Adding {
  level: number
  /** Counted up. */
  written: ZipProgress
  /** Aborted when the zip has failed. */
  ended: AbortSignal
  fail(error: unknown): void
}

/** Gives one source after the other to yazl, waiting while two batches are on their way. */
function createAdding(zip: ZipFile, { level, written, ended, fail }: Adding): (source: ZipSource) => Promise<void> {
  const zipped = zip.outputStream as PassThrough
  const onRead = (bytes: number): void => void (written.bytes += bytes)
  let entries = 0
  let bytes = 0
  let given = 0
  let released = 0
  let lastBatch: Promise<unknown> = Promise.resolve()

  /** yazl's own list of its entries: not of its documented interface, so nothing but memory may depend on it. */
  function release(upTo: number): void {
    const { entries = [] } = zip as unknown as { entries?: Array<{ doFileDataPump?: unknown }> }
    for (const entry of entries.slice(released, upTo)) entry.doFileDataPump = null
    released = upTo
  }

  return async source => {
    checkSourceName(source)
    const { path, kind } = source
    const stat = { mode: unixMode(source), mtime: new Date(source.mtimeMs) }
    const packing = { ...stat, compressionLevel: isWorthDeflating(source) ? level : 0 }
    written.entries++
    entries++
    given++
    bytes += source.bytes
    const before = given - 1
    const endsBatch = bytes >= batchBytes || entries >= batchEntries
    if (kind === 'directory') return zip.addEmptyDirectory(path, stat)
    if (kind === 'symlink') return zip.addBuffer(Buffer.from(source.source), path, packing)
    if (!endsBatch && source.bytes <= maxWholeBytes) {
      zip.addBuffer(readWhole(source), path, packing)
      return onRead(source.bytes)
    }
    const batch = createGate(ended)
    zip.addReadStreamLazy(path, packing, give => {
      const start = (): void => {
        give(null, Readable.from(read(source, onRead), { signal: ended }).on('error', fail))
        release(before)
        batch.open()
      }
      // yazl writes what it was given as buffers whether or not somebody reads.
      if (zipped.writableNeedDrain) zipped.once('drain', start)
      else start()
    })
    await lastBatch
    lastBatch = batch.opened
    entries = bytes = 0
  }
}

function addLast(zip: ZipFile, { path, mode, mtimeMs, contents }: LastSource, { ended, fail }: Pick<Adding, 'ended' | 'fail'>): void {
  zip.addReadStreamLazy(path, { mode: 0o100000 | mode, mtime: new Date(mtimeMs) }, give => {
    give(null, Readable.from([contents()], { signal: ended }).on('error', fail))
  })
}

/** Opened also when the signal is aborted: the one who waits looks for that next. */
function createGate(signal: AbortSignal): { opened: Promise<unknown>; open(): void } {
  const gate = new EventEmitter()
  return { opened: once(gate, 'open', { signal }).catch(() => {}), open: () => void gate.emit('open') }
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

async function* read(entry: ZipSource, onRead: (bytes: number) => void): AsyncIterable<Uint8Array> {
  const { path, source, bytes } = entry
  let seen = 0
  try {
    for await (const chunk of typeof source === 'string' ? await openFile(source, entry) : [source]) {
      seen += chunk.length
      onRead(chunk.length)
      entry.onRead?.(chunk)
      if (seen > bytes) break
      yield chunk
    }
    if (seen !== bytes) throw sourceChanged(path)
  } catch (error) {
    throw sourceUnreadable(path, error)
  }
}

async function openFile(path: string, { bytes, isGrowing }: ZipSource): Promise<AsyncIterable<Buffer>> {
  if (isGrowing && bytes === 0) return Readable.from([])
  const end = isGrowing ? bytes - 1 : Infinity
  return (await open(path, readOnly)).createReadStream({ highWaterMark: readBytes, end })
}
