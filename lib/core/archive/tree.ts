/*
 * The tree of sources (base/shared/tree-text.ts): the same entries, modes and times that the zip of these sources has
 * (write.ts), without its bytes. For many or large files, the threads that pack also compute the digests, a batch of
 * sources at a time.
 */
import { setImmediate as turn } from 'node:timers/promises'
import { createTreeDigest } from '../../model/manifest.js'
import { packedMode, type TreeEntry, treeOrder } from '../../base/shared/tree-text.js'
import { createSegmentThreads } from './segments.js'
import { checkSourceName, digestBytes, digestSources, type ZipSource } from './source.js'

/** An entry of a tree, and the modification time that the zip contains. */
export interface TimedEntry extends TreeEntry {
  /** Whole seconds, in milliseconds since 1970. */
  mtimeMs: number
}

/** The tree of sources. */
export interface SourceTree {
  /** In the order of `compareTreePaths`. */
  entries: TimedEntry[]
  treeSha256: string
  /** Total size of the files in bytes. */
  bytes: number
}

/** The tree of sources that were read. */
export interface ReadTree extends SourceTree {
  /** The source of each entry. */
  sources: readonly ZipSource[]
}

export interface TreeOptions {
  /** Called with the number of bytes that were digested. */
  onProgress?: (bytes: number) => void
  signal?: AbortSignal | undefined
  /** Returns the digest of a source that need not be read; undefined: it is read. */
  known?: (source: ZipSource) => string | undefined
  /** Time for which this thread digests alone, in milliseconds. Default: 150. */
  aloneMs?: number
}

/** Limits of a batch: about 10 ms of work for a thread. */
const batchEntries = 512
const batchBytes = 4 * 1024 * 1024
/** Number of batches that each thread has in advance. */
const batchesAhead = 2
const defaultAloneMs = 150
/** The time of an entry is a signed number of 32 bits. */
const maxSeconds = 2 ** 31 - 1

/**
 * Returns the tree of sources, without its directories. Refuses (`unavailable`): file_vanished, file_changed,
 * file_unreadable, naming the file; (`invalid`) name_not_packable. Throws the reason of an aborted signal.
 */
export async function treeOf(sources: readonly ZipSource[], options: TreeOptions = {}): Promise<ReadTree> {
  const files = sources.filter(({ kind }) => kind !== 'directory')
  const order = treeOrder(files.map(({ path }) => path))
  files.sort((a, b) => order(a.path, b.path))
  for (const source of files) checkSourceName(source)
  const unread: number[] = []
  const digests = files.map((source, at) => {
    const sha256 = options.known?.(source)
    if (sha256 === undefined) unread.push(at)
    return sha256
  })
  const unknown = unread.map(at => files[at] as ZipSource)
  const totalBytes = sizeOf(files)
  let bytes = totalBytes - sizeOf(unknown)
  let next = 0
  for await (const { batch, digests: read } of digestAhead(unknown, options)) {
    for (const [at, source] of batch.entries()) {
      const sha256 = Buffer.from(read.buffer, read.byteOffset + at * digestBytes, digestBytes).toString('hex')
      digests[unread[next++] as number] = sha256
      bytes += source.bytes
    }
    options.onProgress?.(bytes)
  }
  const tree = createTreeDigest()
  const entries = files.map((source, at) => {
    const entry = entryOf(source, digests[at] as string)
    tree.add(entry)
    return entry
  })
  return { entries, sources: files, treeSha256: tree.end(), bytes: totalBytes }
}

function entryOf(source: ZipSource, sha256: string): TimedEntry {
  const { path, kind, mtimeMs } = source
  const isLink = kind === 'symlink'
  return {
    path,
    mode: packedMode(source),
    size: isLink ? Buffer.byteLength(source.source as string) : source.bytes,
    sha256,
    mtimeMs: Math.max(-maxSeconds - 1, Math.min(maxSeconds, Math.floor(mtimeMs / 1000))) * 1000
  }
}

interface Digested {
  batch: readonly ZipSource[]
  digests: Uint8Array
}

/**
 * Digests batches and yields them in order. The first ones are digested in this thread: starting threads takes longer
 * than ten thousand small files. Threads do the rest, while earlier batches are used. measured: bench/plan
 */
async function* digestAhead(sources: readonly ZipSource[], options: TreeOptions): AsyncGenerator<Digested> {
  const { signal, aloneMs = defaultAloneMs } = options
  signal?.throwIfAborted()
  const batches = [...batchesOf(sources)]
  const untilMs = performance.now() + aloneMs
  let at = 0
  for (; at < batches.length; at++) {
    const batch = batches[at] as ZipSource[]
    // A large file would delay an interrupt.
    if (performance.now() > untilMs || sizeOf(batch) > batchBytes) break
    yield { batch, digests: digestSources(batch) }
    await turn()
    signal?.throwIfAborted()
  }
  if (at < batches.length) yield* digestInThreads(batches.slice(at), signal)
}

async function* digestInThreads(
  batches: ReadonlyArray<readonly ZipSource[]>,
  signal: AbortSignal | undefined
): AsyncGenerator<Digested> {
  const threads = createSegmentThreads()
  try {
    const waiting: Array<{ batch: readonly ZipSource[]; ready: Promise<Uint8Array> }> = []
    for (const batch of batches) {
      const ready = threads.pack({ kind: 'digest', sources: batch })
      // It may fail before anything waits for it, or when nothing ever does.
      ready.catch(() => {})
      waiting.push({ batch, ready })
      if (waiting.length > threads.count * batchesAhead) yield await nextOf(waiting)
      signal?.throwIfAborted()
    }
    while (waiting.length > 0) yield await nextOf(waiting)
    signal?.throwIfAborted()
  } finally {
    await threads.close()
  }
}

async function nextOf(waiting: Array<{ batch: readonly ZipSource[]; ready: Promise<Uint8Array> }>): Promise<Digested> {
  const { batch, ready } = waiting.shift() as (typeof waiting)[number]
  return { batch, digests: await ready }
}

function sizeOf(sources: readonly ZipSource[]): number {
  return sources.reduce((sum, { bytes }) => sum + bytes, 0)
}

function* batchesOf(sources: readonly ZipSource[]): Generator<ZipSource[]> {
  let batch: ZipSource[] = []
  let bytes = 0
  for (const source of sources) {
    if (batch.length >= batchEntries || (batch.length > 0 && bytes + source.bytes > batchBytes)) {
      yield batch
      batch = []
      bytes = 0
    }
    batch.push(source)
    bytes += source.bytes
  }
  if (batch.length > 0) yield batch
}
