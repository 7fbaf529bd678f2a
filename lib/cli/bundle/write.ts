/* Writes a bundle (format.ts). Its entries have one fixed time, so that the same contents give the same bytes. */
import { createReadStream, existsSync, readdirSync } from 'node:fs'
import { basename, dirname } from 'node:path'
import { crc32, sha256 } from '../../base/digests.js'
import { Refusal } from '../../base/errors.js'
import { oneLine } from '../../base/text.js'
import { treeHead, treeLine } from '../../base/shared/tree-text.js'
import { directoryOf, localHeader, newRecord, type ZipRecord } from '../../base/shared/zip-records.js'
import { entriesOfArchive } from '../../core/archive/archive-tree.js'
import { openArchive } from '../../core/archive/read.js'
import type { TimedEntry } from '../../core/archive/tree.js'
import { maxTreeEntries } from '../../core/archive/tree-wire.js'
import { type BundleManifest, type BundlePart, manifestName, manifestText } from './format.js'
import { archiveBytesAllowed, digestOfTree } from './contents.js'
import { createVolumes } from './volumes.js'

/** Contents that are held in memory, by the name of their entry. */
export type SmallParts = ReadonlyArray<readonly [name: string, contents: Uint8Array]>

/** What a bundle is made of. */
export interface BundleSource {
  archive: { path: string; bytes: number; sha256: string }
  /** Besides the tree, which `contentsOf` makes from the archive. */
  parts: SmallParts
  about: Omit<BundleManifest, 'tree' | 'parts'>
}

/** A bundle that was written. */
export interface WrittenBundle {
  paths: string[]
  bytes: number
  sha256: string
  treeSha256: string
  files: number
}

const attributes = (0o100644 << 16) >>> 0
/** The first day that a zip can name, in every time zone. */
const fixedTimeMs = Date.UTC(1980, 0, 2)
const readBytes = 1024 * 1024

/** Refuses (`conflict`, file_exists) to write where a bundle or a part of one is. */
export function checkFree(path: string): void {
  const name = basename(path)
  const there = existsSync(path)
    ? name
    : existsSync(dirname(path))
      ? readdirSync(dirname(path)).find(each => each.startsWith(`${name}.`) && /\.\d{3}$/.test(each))
      : undefined
  if (there === undefined) return
  const sentence = `"${oneLine(there)}" exists. Remove it, or name another --file`
  throw new Refusal('conflict', 'file_exists', sentence, { field: '--file' })
}

/** Returns the entries of a packed archive, sorted. Refuses an archive that `svc bundle verify` would refuse. */
export async function entriesOf(archive: BundleSource['archive'], signal: AbortSignal): Promise<TimedEntry[]> {
  const opened = await openArchive(archive.path, {
    maxEntries: maxTreeEntries,
    maxExtractedBytes: archiveBytesAllowed(archive.bytes)
  })
  try {
    return await entriesOfArchive(opened, { signal })
  } finally {
    opened.close()
  }
}

/** Returns the text of a tree. */
export function treeText(entries: readonly TimedEntry[]): Buffer {
  return Buffer.from(treeHead + entries.map(treeLine).join(''))
}

/** Writes the bundle to `path`, or to parts of it. Removes what it wrote if it fails. */
export async function writeBundle(
  { archive, parts, about }: BundleSource,
  {
    path,
    entries,
    splitBytes,
    signal
  }: {
    path: string
    entries: readonly TimedEntry[]
    splitBytes: number | null
    signal: AbortSignal
  }
): Promise<WrittenBundle> {
  const tree = treeText(entries)
  const treeSha256 = digestOfTree(tree)
  const small: SmallParts = [['tree', tree], ...parts]
  const described: BundlePart[] = [
    { name: 'archive.zip', bytes: archive.bytes, sha256: archive.sha256 },
    ...small.map(([name, contents]) => ({ name, bytes: contents.length, sha256: sha256(contents).toString('hex') }))
  ]
  const manifest = Buffer.from(
    manifestText({
      ...about,
      tree: { sha256: treeSha256, files: entries.length, bytes: entries.reduce((sum, { size }) => sum + size, 0) },
      parts: described
    })
  )
  checkFree(path)
  const volumes = createVolumes(path, splitBytes)
  const records: ZipRecord[] = []
  let offset = 0
  async function put(bytes: Uint8Array): Promise<void> {
    signal.throwIfAborted()
    await volumes.write(bytes)
    offset += bytes.length
  }
  async function begin(name: string, bytes: number, crc: number): Promise<void> {
    const entry = newRecord({ name: Buffer.from(name), mtimeMs: fixedTimeMs, attributes, bytes, offset })
    Object.assign(entry, { crc, packedBytes: bytes })
    records.push(entry)
    await put(localHeader(entry))
  }
  async function putSmall(name: string, contents: Uint8Array): Promise<void> {
    await begin(name, contents.length, crc32(contents))
    await put(contents)
  }
  try {
    await putSmall(manifestName, manifest)
    await begin('archive.zip', archive.bytes, await checksumOf(archive.path, signal))
    for await (const piece of piecesOf(archive.path)) await put(piece)
    for (const [name, contents] of small) await putSmall(name, contents)
    await put(directoryOf(records, offset))
    return { ...(await volumes.end()), treeSha256, files: entries.length }
  } catch (error) {
    await volumes.abandon()
    throw error
  }
}

function piecesOf(path: string): AsyncIterable<Buffer> {
  return createReadStream(path, { highWaterMark: readBytes }) as AsyncIterable<Buffer>
}

async function checksumOf(path: string, signal: AbortSignal): Promise<number> {
  let crc = 0
  for await (const piece of piecesOf(path)) {
    signal.throwIfAborted()
    crc = crc32(piece, crc)
  }
  return crc
}
