/*
 * Contents of a kept release for differences within files (archive/patch.ts): their sums, and a zip of the new contents that
 * patches make of them. One file at a time is inflated; a large one goes to a file beside the zip, because patches copy
 * from any place of it. The new contents are deflated while they are made, and must be those that the tree names.
 */
import { createHash } from 'node:crypto'
import { type FileHandle, open, rm } from 'node:fs/promises'
import { pipeline } from 'node:stream/promises'
import { createDeflateRaw, deflateRawSync } from 'node:zlib'
import { crc32 } from '../../base/digests.js'
import { invalid, Refusal } from '../../base/errors.js'
import { OpenFile } from '../../base/files.js'
import { formatBytes } from '../../base/shared/api.js'
import { compareTreePaths, linkMode } from '../../base/shared/tree-text.js'
import { deflated, directoryOf, localHeader, newRecord, type ZipRecord } from '../../base/shared/zip-records.js'
import { createEntryReader, isSmall } from '../archive/entry-data.js'
import { archiveTooLarge, quoteName } from '../archive/names.js'
import {
  createPatchReader,
  createSummer,
  invalidPatch,
  maxSummedBytes,
  type PatchPart,
  sumsBytesOf
} from '../archive/patch.js'
import type { Archive, ArchiveEntry } from '../archive/read.js'
import { isWorthDeflating } from '../archive/source.js'
import type { TimedEntry } from '../archive/tree.js'

type Weigh = (bytes: number) => void
/** Runs what reads the contents of the release. */
type Reading = <T>(work: () => Promise<T>) => Promise<T>

/**
 * Returns the sums of files of an archive, one after the other. `lines` are the numbers of their lines in its tree. Refuses
 * 400 `invalid_field`, and what the reading of entries refuses.
 */
export async function sumsOfEntries(
  archive: Archive,
  lines: readonly number[],
  { reading, weigh }: { reading: Reading; weigh: Weigh }
): Promise<Uint8Array<ArrayBuffer>> {
  const sorted = archive.entries
    .filter(({ kind }) => kind !== 'directory')
    .sort((a, b) => compareTreePaths(a.path, b.path))
  const entries = lines.map(line => {
    const entry = sorted[line]
    if (entry?.kind === 'file') return entry
    throw invalid('lines', `"lines" has ${line}: the tree of the release has no file in this line`)
  })
  const bytes = entries.reduce((sum, { size }) => sum + size, 0)
  if (bytes > maxSummedBytes) {
    throw invalid('lines', `"lines" names files of more than ${formatBytes(maxSummedBytes)} in total`)
  }
  weigh(bytes)
  const reader = createEntryReader(archive)
  const sums = new Uint8Array(entries.reduce((sum, { size }) => sum + sumsBytesOf(size), 0))
  let at = 0
  for (const entry of entries) {
    const summer = createSummer(entry.size)
    await reading(() => reader.read(entry, piece => summer.add(piece)))
    sums.set(summer.end(), at)
    at += sumsBytesOf(entry.size)
  }
  return sums
}

/** What is rebuilt. */
interface Rebuilding {
  /** The release that patches copy from. */
  archive: Archive
  patches: Uint8Array
  /** The entries of the differences of the trees, in their order. */
  changed: ReadonlySet<TimedEntry>
  /** The zip to write. */
  to: string
  maxArchiveBytes: number
  /** The paths whose contents were sent. */
  isSent: ReadonlySet<string>
  reading: Reading
  /** Gets the number of bytes that are made or read next. What it throws ends the work. */
  weigh: Weigh
}

/** New contents, packed. */
interface Rebuilt {
  path: string
  compressedSize: number
}

/**
 * Writes a zip of the contents that patches make, and returns its entries. Refuses 400 `invalid_patch`, 400
 * `assembly_differs` for contents that are not those of the tree, and 413 `too_large`. A zip that is not complete stays.
 */
export async function rebuild({
  archive,
  patches,
  changed,
  isSent,
  to,
  maxArchiveBytes,
  reading,
  weigh
}: Rebuilding): Promise<Rebuilt[]> {
  const lines = [...changed]
  const earlier = new Map(archive.entries.map(entry => [entry.path, entry]))
  const reader = createPatchReader(patches)
  const contents = createEarlier(archive, `${to}.earlier`)
  const records: ZipRecord[] = []
  const rebuilt: Rebuilt[] = []
  const file = await open(to, 'wx', 0o600)
  try {
    let [offset, bytes] = [0, 0]
    for (let line = reader.next(); line !== null; line = reader.next()) {
      const entry = lines[line]
      const before = entry === undefined ? undefined : earlier.get(entry.path)
      if (entry === undefined || before?.kind !== 'file' || entry.mode === linkMode)
        throw invalidPatch(`line ${line} of the changes is not a file that the earlier release has`)
      if (isSent.has(entry.path)) throw invalidPatch(`${quoteName(entry.path)} came whole, too`)
      bytes += Math.max(entry.size, before.size)
      if (bytes > maxSummedBytes) throw invalidPatch(`their files have more than ${formatBytes(maxSummedBytes)}`)
      weigh(Math.max(entry.size, before.size))
      await reading(() => contents.take(before))
      const parts = reader.parts({ bytes: entry.size, earlierBytes: before.size })
      const { record, end } = await writeEntry(file, entry, { offset, pieces: () => piecesOf(parts, contents) })
      records.push(record)
      rebuilt.push({ path: entry.path, compressedSize: record.packedBytes })
      offset = end
      if (offset > maxArchiveBytes) throw archiveTooLarge(maxArchiveBytes)
    }
    const directory = directoryOf(records, offset)
    await file.write(directory, 0, directory.length, offset)
    return rebuilt
  } finally {
    await file.close()
    await contents.end()
  }
}

/** Writes an entry at an offset. Returns where it ends. */
async function writeEntry(
  file: FileHandle,
  entry: TimedEntry,
  { offset, pieces }: { offset: number; pieces(): Iterable<Uint8Array> }
): Promise<{ record: ZipRecord; end: number }> {
  const { path, mode, mtimeMs, size, sha256 } = entry
  const record = newRecord({ name: Buffer.from(path), mtimeMs, attributes: mode * 0x10000, bytes: size, offset })
  const hash = createHash('sha256')
  function* hashed(): Generator<Uint8Array> {
    for (const piece of pieces()) {
      hash.update(piece)
      record.crc = crc32(piece, record.crc) >>> 0
      yield piece
    }
  }
  const begin = offset + localHeader(record).length
  let end = begin
  const write = async (packed: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): Promise<void> => {
    for await (const piece of packed) {
      await file.write(piece, 0, piece.length, end)
      end += piece.length
    }
  }
  const isDeflated = isWorthDeflating({ path, kind: 'file', bytes: size })
  if (isDeflated) record.method = deflated
  if (!isDeflated) await write(hashed())
  else if (isSmall({ size, compressedSize: size })) await write([deflateRawSync(Buffer.concat([...hashed()]))])
  else {
    // A pipeline whose last step fails may report an abort instead of the reason.
    let failure: unknown
    const kept = (packed: AsyncIterable<Uint8Array>) =>
      write(packed).catch(error => Promise.reject((failure ??= error)))
    await pipeline(hashed(), createDeflateRaw(), kept).catch(error => Promise.reject(failure ?? error))
  }
  if (hash.digest('hex') !== sha256) {
    const why = 'the differences that were sent do not make it'
    throw new Refusal('invalid', 'assembly_differs', `Cannot use ${quoteName(path)}: ${why}. Push again`, {
      field: 'patches'
    })
  }
  record.packedBytes = end - begin
  const header = localHeader(record)
  await file.write(header, 0, header.length, offset)
  return { record, end }
}

/** Contents of an earlier release, of one file at a time. */
type Earlier = ReturnType<typeof createEarlier>

const pieceBytes = 256 * 1024

function createEarlier(archive: Archive, beside: string) {
  const reader = createEntryReader(archive)
  let whole: Uint8Array | null = null
  let file: OpenFile | null = null
  return {
    /** Takes the contents of an entry. */
    async take(entry: ArchiveEntry): Promise<void> {
      whole = null
      file?.close()
      file = null
      if (isSmall(entry)) {
        whole = reader.readWhole(entry)
        return
      }
      const opened = (file = new OpenFile(beside, 'w+', 0o600))
      await reader.readPieces(entry, piece => opened.writeSync(piece))
    },
    /** Yields a part of the contents. */
    *part(offset: number, bytes: number): Generator<Uint8Array> {
      if (whole !== null) return yield whole.subarray(offset, offset + bytes)
      for (let done = 0; done < bytes; done += pieceBytes) {
        const piece = Buffer.allocUnsafe(Math.min(pieceBytes, bytes - done))
        file?.readSync(piece, offset + done)
        yield piece
      }
    },
    async end(): Promise<void> {
      file?.close()
      await rm(beside, { force: true })
    }
  }
}

function* piecesOf(parts: Iterable<PatchPart>, earlier: Earlier): Generator<Uint8Array> {
  for (const part of parts) {
    if ('added' in part) yield part.added
    else yield* earlier.part(part.offset, part.bytes)
  }
}
