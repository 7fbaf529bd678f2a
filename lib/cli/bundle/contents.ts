/*
 * Reads a bundle (format.ts). `withBundle` checks its directory and `bundle.json`; nothing else is read before somebody
 * asks for it, and every entry that is read is compared with its digest.
 */
import { createHash } from 'node:crypto'
import { pipeline } from 'node:stream/promises'
import { sha256 } from '../../base/digests.js'
import { Refusal } from '../../base/errors.js'
import { type ReadableFile, withWriteStream } from '../../base/files.js'
import { localBytes } from '../../base/shared/zip-records.js'
import { treeHead, treeLine } from '../../base/shared/tree-text.js'
import { entriesOfArchive } from '../../core/archive/archive-tree.js'
import { createEntryReader, type EntryReader } from '../../core/archive/entry-data.js'
import { type Archive, type ArchiveEntry, openArchive } from '../../core/archive/read.js'
import type { TimedEntry } from '../../core/archive/tree.js'
import { maxTreeEntries } from '../../core/archive/tree-wire.js'
import { maxSignatures } from '../../model/statement.js'
import {
  type BundleManifest,
  type BundlePart,
  damaged,
  manifestName,
  maxBytesOf,
  maxManifestBytes,
  notABundle,
  readManifest
} from './format.js'
import { type OpenVolumes, withVolumes } from './volumes.js'

/** More entries than a bundle can have are not read. */
const maxEntries = 10 + maxSignatures
/** An archive may inflate to this size, whatever its own. */
const alwaysAllowedBytes = 1024 * 1024 * 1024
/** A larger one, to so many times its own: releases inflate to three or four times, bombs to a thousand times. */
const maxRatio = 200

/** Returns the maximum uncompressed size of an archive of this size. */
export function archiveBytesAllowed(bytes: number): number {
  return Math.max(alwaysAllowedBytes, bytes * maxRatio)
}

/** An open bundle whose `bundle.json` was read. */
export interface Bundle {
  manifest: BundleManifest
  paths: readonly string[]
  /** Size of the bundle in bytes, without the heads of its parts. */
  bytes: number
  /** Returns the contents of a small entry, or null if there is no such entry. Refuses bundle_damaged. */
  read(name: string): Promise<Buffer | null>
  /** Copies `archive.zip` to a file. Refuses bundle_damaged. */
  extractArchive(path: string, signal: AbortSignal): Promise<void>
  /** Compares everything: digests of all entries and parts, and the files of the archive with `tree`. */
  verify(signal: AbortSignal): Promise<void>
}

/**
 * Opens the bundle at `path`, or of which that is a part, for the time of `use`. Refuses (`invalid`): not_a_bundle,
 * bundle_too_new, bundle_incomplete, bundle_damaged.
 */
export function withBundle<T>(path: string, use: (bundle: Bundle) => Promise<T>): Promise<T> {
  return withVolumes(path, async volumes => {
    const zip = await openBundleZip(volumes.file)
    return await use(await bundleOf(zip, volumes))
  })
}

async function openBundleZip(file: ReadableFile): Promise<Archive> {
  // The volumes close the file.
  const borrowed = borrow(file, 0, file.size)
  const zip = await inBundle(() => openArchive(borrowed, { maxEntries, maxExtractedBytes: Number.MAX_SAFE_INTEGER }))
  if (!zip.entries.some(({ path }) => path === manifestName))
    throw notABundle(`it contains no "${manifestName}". "svc import" takes export packages`)
  for (const { path, kind, method, size } of zip.entries) {
    const max = kind === 'file' ? maxBytesOf(path) : null
    if (max === null) throw notABundle(`a bundle has no ${kind} "${path}"`)
    if (method !== 0) throw notABundle(`"${path}" is compressed`)
    if (size > max) throw notABundle(`"${path}" has ${size} bytes, and may have at most ${max}`)
  }
  return zip
}

async function bundleOf(zip: Archive, volumes: OpenVolumes): Promise<Bundle> {
  const reader = createEntryReader(zip)
  const entries = new Map(zip.entries.map(entry => [entry.path, entry]))
  if (entries.size < zip.entries.length) throw notABundle('it contains an entry twice')
  const about = entries.get(manifestName) as ArchiveEntry
  const manifest = readManifest((await bytesOf(reader, about, maxManifestBytes)).toString('utf8'))
  const parts = partsOf(manifest, entries)

  async function read(name: string): Promise<Buffer | null> {
    const part = parts.get(name)
    if (part === undefined) return null
    const bytes = await bytesOf(reader, part.entry, part.bytes)
    if (sha256(bytes).toString('hex') !== part.sha256) throw differs(name)
    return bytes
  }

  async function readArchive(onPiece: (piece: Buffer) => void): Promise<void> {
    const { entry, sha256: expected } = parts.get('archive.zip') as PartEntry
    const hash = createHash('sha256')
    await inBundle(() =>
      reader.read(entry, piece => {
        hash.update(piece)
        onPiece(piece)
      })
    )
    if (hash.digest('hex') !== expected) throw differs('archive.zip')
  }

  return {
    manifest,
    paths: volumes.paths,
    bytes: volumes.file.size,
    read,
    async extractArchive(path, signal) {
      const { entry, sha256: expected } = parts.get('archive.zip') as PartEntry
      const hash = createHash('sha256')
      async function* hashed(): AsyncGenerator<Buffer> {
        for await (const piece of blocksOf(volumes.file, startOf(zip.file, entry), entry.size)) {
          hash.update(piece)
          yield piece
        }
      }
      await withWriteStream(path, { mode: 0o600, flags: 'wx' }, out => pipeline(hashed, out, { signal }))
      if (hash.digest('hex') !== expected) throw differs('archive.zip')
    },
    async verify(signal) {
      await volumes.checkDigests(signal)
      for (const name of parts.keys()) if (name !== 'archive.zip') await read(name)
      await readArchive(() => signal.throwIfAborted())
      const { entry } = parts.get('archive.zip') as PartEntry
      const own = borrow(volumes.file, startOf(zip.file, entry), entry.size)
      await entriesOfRelease(own, { manifest, tree: (await read('tree')) as Buffer, signal })
    }
  }
}

interface PartEntry extends BundlePart {
  entry: ArchiveEntry
}

/** Returns the entries by name. Refuses what `bundle.json` does not say. */
function partsOf({ parts }: BundleManifest, entries: ReadonlyMap<string, ArchiveEntry>): Map<string, PartEntry> {
  const named = new Map<string, PartEntry>()
  for (const part of parts) {
    const entry = entries.get(part.name)
    if (entry === undefined) throw damaged(`"${part.name}" is missing`)
    if (entry.size !== part.bytes)
      throw damaged(`"${part.name}" has ${entry.size} bytes, and "${manifestName}" says ${part.bytes}`)
    named.set(part.name, { ...part, entry })
  }
  for (const name of entries.keys())
    if (name !== manifestName && !named.has(name)) throw damaged(`"${manifestName}" does not name "${name}"`)
  return named
}

/** The files of a release, and what a bundle says about them. */
interface Release {
  manifest: BundleManifest
  /** The text of `tree`. */
  tree: Buffer
  signal: AbortSignal
}

/**
 * Returns the files of the archive of a bundle, which must be those of its tree. Sizes are compared first, so that
 * nothing inflates to more than the tree says.
 */
export async function entriesOfRelease(
  archive: string | ReadableFile,
  { manifest, tree, signal }: Release
): Promise<TimedEntry[]> {
  if (digestOfTree(tree) !== manifest.tree.sha256) throw damaged(`"tree" is not the one that "${manifestName}" names`)
  const opened = await inBundle(() =>
    openArchive(archive, { maxEntries: maxTreeEntries, maxExtractedBytes: Number.MAX_SAFE_INTEGER })
  )
  try {
    if (opened.totalBytes > archiveBytesAllowed(opened.fileSize))
      throw notABundle(`its archive of ${opened.fileSize} bytes would inflate to ${opened.totalBytes} bytes`)
    const files = opened.entries.filter(({ kind }) => kind !== 'directory')
    const bytes = files.reduce((sum, { size }) => sum + size, 0)
    const said = manifest.tree
    if (files.length !== said.files || bytes !== said.bytes)
      throw damaged(
        `its archive has ${files.length} files of ${bytes} bytes, and "${manifestName}" says ${said.files} of ${said.bytes}`
      )
    const entries = await inBundle(() => entriesOfArchive(opened, { signal }))
    const own = treeHead + entries.map(treeLine).join('')
    if (own !== tree.toString('utf8')) throw damaged(`its archive differs from its tree ${firstDifference(own, tree)}`)
    return entries
  } finally {
    opened.close()
  }
}

/** Returns the digest that names a tree: the SHA-256 of its text. */
export function digestOfTree(text: Uint8Array): string {
  return sha256(text).toString('hex')
}

function firstDifference(own: string, tree: Buffer): string {
  const said = tree.toString('utf8').split('\n')
  const found = own.split('\n')
  const at = found.findIndex((each, index) => each !== said[index])
  const [, path = ''] = /^\S+ \S+ \S+ (.*)$/.exec(found[at] || said[at] || '') ?? []
  return path === '' ? `in line ${at + 1}` : `in "${path}"`
}

function differs(name: string): Refusal {
  return damaged(`"${name}" differs from its digest`)
}

async function bytesOf(reader: EntryReader, entry: ArchiveEntry, max: number): Promise<Buffer> {
  const pieces: Buffer[] = []
  let length = 0
  await inBundle(() =>
    reader.read(entry, piece => {
      length += piece.length
      if (length > max) throw damaged(`"${entry.path}" is longer than it says`)
      pieces.push(Buffer.from(piece))
    })
  )
  return Buffer.concat(pieces, length)
}

/** Runs a reading of a zip, whose refusals are about archives. */
async function inBundle<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof Refusal) || /^(not_a_bundle|bundle_)/.test(error.code)) throw error
    const why = error.message.replace(/^Cannot (read|extract) the archive: /, '').replace(/^it is not a zip file$/, '')
    if (error.code === 'crc_mismatch') throw damaged(why, error)
    throw notABundle(why === '' ? 'it is not a zip file' : why, error)
  }
}

function startOf(file: ReadableFile, { headerOffset }: ArchiveEntry): number {
  const header = Buffer.alloc(localBytes)
  file.readSync(header, headerOffset)
  return headerOffset + localBytes + header.readUInt16LE(26) + header.readUInt16LE(28)
}

const blockBytes = 1024 * 1024

async function* blocksOf(file: ReadableFile, start: number, bytes: number): AsyncGenerator<Buffer> {
  for (let done = 0; done < bytes; ) {
    const block = Buffer.allocUnsafeSlow(Math.min(blockBytes, bytes - done))
    if ((await file.read(block, start + done)) < block.length) throw damaged('it is cut off')
    done += block.length
    yield block
  }
}

/** Returns a part of a file as a file of its own, which does not close it. */
function borrow(file: ReadableFile, start: number, size: number): ReadableFile {
  const room = (into: Uint8Array, position: number): Uint8Array =>
    into.subarray(0, Math.max(0, Math.min(into.length, size - position)))
  return {
    size,
    readSync: (into, position) => file.readSync(room(into, position), start + position),
    read: (into, position) => file.read(room(into, position), start + position),
    close() {}
  }
}
