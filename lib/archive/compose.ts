/*
 * Composes a zip from entries of other zips. Their contents are copied as they are, without inflating them, so it takes
 * the time of a copy. Modes and times are those that the caller gives. Whoever extracts the zip checks the contents.
 */
import { createHash } from 'node:crypto'
import { open, rm, type FileHandle } from 'node:fs/promises'
import { dirname } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { Refusal } from '../base/refusal.js'
import { syncDirectory } from '../base/sync.js'
import { directoryOf, localHeader, newRecord, stored, type ZipRecord } from '../shared/zip-records.js'
import { createEntryReader } from './entry-data.js'
import { quoteName } from './names.js'
import { openArchive, type ArchiveEntry, type ArchiveLimits } from './read.js'

/** An entry of the new zip. */
export interface ComposedEntry {
  path: string
  /** File type and permission bits, as in stat. */
  mode: number
  /** Uncompressed size. */
  size: number
  /** Milliseconds since 1970; null for a directory. */
  mtimeMs: number | null
  /** The path of the zip that contains the contents, under the same path; null for a directory. */
  source: string | null
}

/** The result of composing. */
export interface ComposedArchive {
  bytes: number
  sha256: string
}

const batchBytes = 1024 * 1024
/** Number of small entries that are copied without a pause. */
const entriesInTurn = 200

/**
 * Writes a zip of these entries; it may be empty. The file and its name are on disk when this resolves, and there is
 * no file if it rejects. Refuses (`invalid`, damaged_archive) an entry that its source does not contain, and what
 * `openArchive` refuses. An abort rejects with the reason of the signal.
 */
export async function composeArchive(
  path: string,
  entries: readonly ComposedEntry[],
  { limits, signal }: { limits: ArchiveLimits; signal?: AbortSignal }
): Promise<ComposedArchive> {
  try {
    const file = await open(path, 'w', 0o600)
    let composed: ComposedArchive
    try {
      composed = await compose(createTail(file), entries, { limits, signal })
      await file.datasync()
    } finally {
      await file.close()
    }
    await syncDirectory(dirname(path))
    return composed
  } catch (error) {
    await rm(path, { force: true }).catch(() => {})
    throw error
  }
}

interface Composing {
  limits: ArchiveLimits
  signal: AbortSignal | undefined
}

async function compose(tail: Tail, entries: readonly ComposedEntry[], composing: Composing): Promise<ComposedArchive> {
  const records: ZipRecord[] = []
  const bySource = new Map<string, ComposedEntry[]>()
  for (const entry of entries) {
    if (entry.source === null) {
      const record = recordOf(entry, tail.offset())
      await tail.add(localHeader(record))
      records.push(record)
    } else {
      const list = bySource.get(entry.source) ?? []
      bySource.set(entry.source, list)
      list.push(entry)
    }
  }
  for (const [source, wanted] of bySource) records.push(...(await copyFrom(source, wanted, { tail, ...composing })))
  await tail.add(directoryOf(records, tail.offset()))
  return tail.end()
}

async function copyFrom(
  source: string,
  wanted: readonly ComposedEntry[],
  { tail, limits, signal }: Composing & { tail: Tail }
): Promise<ZipRecord[]> {
  const records: ZipRecord[] = []
  const byPath = new Map(wanted.map(entry => [entry.path, entry]))
  const archive = await openArchive(source, limits)
  try {
    const reader = createEntryReader(archive)
    // In the order of the archive, so that neighbours come from one read.
    for (const found of archive.entries) {
      const entry = byPath.get(found.path)
      if (entry === undefined || found.kind === 'directory' || found.size !== entry.size) continue
      byPath.delete(found.path)
      const record = recordOf(entry, tail.offset())
      Object.assign(record, contentsOf(found))
      await tail.add(localHeader(record))
      for await (const piece of reader.rawPieces(found)) await tail.add(piece)
      records.push(record)
      if (records.length % entriesInTurn > 0) continue
      await nextTurn()
      signal?.throwIfAborted()
    }
  } finally {
    archive.close()
  }
  const [missing] = byPath.keys()
  if (missing !== undefined) throw notContained(missing)
  return records
}

function recordOf({ path, mode, size, mtimeMs }: ComposedEntry, offset: number): ZipRecord {
  const isDirectory = mtimeMs === null
  const name = Buffer.from(isDirectory ? `${path}/` : path)
  return newRecord({ name, mtimeMs: mtimeMs ?? 0, attributes: (mode & 0xffff) * 0x10000, bytes: size, offset })
}

function contentsOf({
  method,
  crc32,
  compressedSize
}: ArchiveEntry): Pick<ZipRecord, 'method' | 'crc' | 'packedBytes'> {
  return { method: compressedSize === 0 ? stored : method, crc: crc32 >>> 0, packedBytes: compressedSize }
}

function notContained(path: string): Refusal {
  const sentence = `Nothing was changed: the archive that should contain ${quoteName(path)} does not contain it`
  return new Refusal('invalid', 'damaged_archive', sentence)
}

/** The end of the zip, where bytes are added. */
interface Tail {
  offset(): number
  add(bytes: Uint8Array): Promise<void>
  end(): Promise<ComposedArchive>
}

function createTail(file: FileHandle): Tail {
  const hash = createHash('sha256')
  const batch = Buffer.allocUnsafeSlow(batchBytes)
  let [length, offset] = [0, 0]

  async function flush(): Promise<void> {
    const bytes = batch.subarray(0, length)
    hash.update(bytes)
    await file.writeFile(bytes)
    length = 0
  }

  return {
    offset: () => offset,
    async add(bytes) {
      offset += bytes.length
      for (let at = 0; at < bytes.length; ) {
        const count = Math.min(bytes.length - at, batch.length - length)
        batch.set(bytes.subarray(at, at + count), length)
        at += count
        length += count
        if (length === batch.length) await flush()
      }
    },
    async end() {
      await flush()
      return { bytes: offset, sha256: hash.digest('hex') }
    }
  }
}
