/*
 * Makes a whole archive of a kept one, the base, and of what a client sent: the differences of the trees
 * (archive/tree-wire.ts), and a zip of the contents that the base does not have. Packed bytes are shared with the base, or
 * copied. The result is
 * proven before it is used: the contents that were sent are read and hashed, the digests of the others are those that
 * were computed when the base was extracted, and the tree of all must be the one that the client stated.
 */
import { existsSync } from 'node:fs'
import { readFile, stat, rm, writeFile } from 'node:fs/promises'
import { gzipSync } from 'node:zlib'
import { createWorkerPool } from '../../base/workers.js'
import { hasCode, nullIfMissing, Refusal } from '../../base/errors.js'
import { countOf } from '../../base/text.js'
import { formatBytes } from '../../base/shared/api.js'
import { writeDelta } from '../../base/shared/tree-delta.js'
import { compareTreePaths, packedMode } from '../../base/shared/tree-text.js'
import { endOf } from '../../base/shared/zip-records.js'
import { createTreeDigest } from '../../model/manifest.js'
import { type Composed, composeArchive, type ComposedEntry } from '../archive/compose.js'
import { entriesOfArchive } from '../archive/archive-tree.js'
import { createEntryReader } from '../archive/entry-data.js'
import { archiveTooLarge, quoteName, refuse } from '../archive/names.js'
import { readIndex, endsLikePack, type PackIndex, writeIndex } from '../archive/pack-index.js'
import { anyArchive, findKept, openKept, besideArchive, openPack, secondsOf } from '../archive/pack-set.js'
import { digestPackSet } from '../archive/pack-digest.js'
import { invalidPatch, maxPatchBytes } from '../archive/patch.js'
import type { Archive, ArchiveEntry, ArchiveLimits, Pack } from '../archive/read.js'
import type { TimedEntry } from '../archive/tree.js'
import { applyDelta, textOf, writeTree } from '../archive/tree-wire.js'
import { readManifest } from './manifest.js'
import { rebuild, sumsOfEntries } from './rebuild.js'
import { OpenFile } from '../../base/files.js'

/** A kept archive. */
export interface Base {
  archive: string
  /** The path of its manifest, which may be missing. */
  manifest: string
  /** The tree of its record. Digests of a manifest that has another tree are not used. */
  treeSha256?: string | undefined
  /** Length and SHA-256 of the whole zip in its record. */
  whole?: { bytes: number; sha256: string } | undefined
}

/** What to do with a kept archive, as plain data. */
export type BaseTask =
  | { kind: 'tree'; base: Base }
  | { kind: 'sums'; base: Base; lines: readonly number[] }
  | AssembleTask

/** A whole archive to make. */
export interface AssembleTask {
  kind: 'assemble'
  base: Base
  /** The paths of the differences, and of the zip of new contents. */
  sent: { delta: string; contents: string }
  /** The name of the entry of that zip with differences within files (archive/patch.ts). */
  patches?: string | undefined
  /** The SHA-256 of the canonical text of the whole tree. */
  treeSha256: string
  /** The path of the whole archive. */
  to: string
  /** The deployment whose archive the base is, if the result shares contents with it (`shareArchive`). */
  sharesWith?: string | undefined
  limits: ArchiveLimits & { maxArchiveBytes: number }
}

/** A whole archive. */
export interface Assembled extends Composed {
  /** Size of its own files in bytes. */
  storedBytes: number
  /** Number of files and links. */
  files: number
  /** Number of those whose contents were sent, and of those among them that came as differences. */
  came: number
  patched: number
}

/** The result of a task: the compressed tree of the base (archive/tree-wire.ts), sums of its files, or the whole archive. */
export type BaseResult = Uint8Array<ArrayBuffer> | Assembled

/**
 * Does a task. Refuses: 409 `base_gone` if the archive was removed or is damaged, 409 `base_differs`, 400
 * `assembly_incomplete` if contents are missing, 400 `assembly_differs` if sent contents are not those of the tree, 400
 * `invalid_patch`, 413 `too_large`, and what `openArchive` and `applyDelta` refuse.
 */
export async function doBaseTask(task: BaseTask, weigh: Weigh = () => {}): Promise<BaseResult> {
  const archive = await openBase(task.base)
  try {
    if (task.kind === 'sums') return await sumsOfEntries(archive, task.lines, { reading: readingBase, weigh })
    const same = task.kind === 'assemble' ? await takeOver(archive, task) : null
    if (same !== null) return same
    weigh(bytesOf(archive))
    return task.kind === 'tree'
      ? writeBase(await treeOfBase(archive, task.base))
      : await assemble(archive, { ...task, weigh })
  } finally {
    archive.close()
  }
}

/** Gets the number of bytes that are read next. Throws if that is too much for this thread. */
export type Weigh = (bytes: number) => void

function bytesOf({ entries }: Archive): number {
  return entries.reduce((sum, { size }) => sum + size, 0)
}

/** Opens a base. One that is damaged cannot be a base any more; the client then sends the whole archive. */
async function openBase({ archive }: Base): Promise<Archive> {
  try {
    return await openKept(archive, { ...anyArchive, mayBeEmpty: false })
  } catch (error) {
    const isMissing = hasCode(error, 'ENOENT')
    throw isMissing ? baseGone('is not kept any more') : unreadable(error)
  }
}

const emptyZip = Buffer.from(endOf({ entries: 0, offset: 0, bytes: 0 }))

/**
 * Takes over the index of a base that already shares contents, if nothing has changed: what would be made is the same,
 * byte by byte. Returns null if something has. The contents of the base are not read. The extraction compares the tree
 * once more before it changes anything.
 */
async function takeOver(
  archive: Archive,
  { base, sent, treeSha256, to, sharesWith, limits }: AssembleTask
): Promise<Assembled | null> {
  const { whole } = base
  if (whole === undefined || sharesWith === undefined || archive.packs === undefined) return null
  if (base.treeSha256 !== treeSha256 || whole.bytes > limits.maxArchiveBytes) return null
  const nothing = writeDelta({ changed: [], gone: [], missing: [] }, treeSha256)
  if (!textOf(await readFile(sent.delta)).equals(Buffer.from(nothing))) return null
  // Directories are not part of a tree: they are those that were sent.
  if (archive.entries.some(({ kind }) => kind === 'directory')) return null
  const isEmpty = (await stat(sent.contents)).size === emptyZip.length && emptyZip.equals(await readFile(sent.contents))
  if (!isEmpty) return null
  const kept = await readFile(besideArchive(base.archive, 'index')).catch(nullIfMissing)
  if (kept === null) return null
  const text = writeIndex({ ...readIndex(kept, base.archive), base: sharesWith })
  await writeFile(besideArchive(to, 'index'), text, { mode: 0o600 })
  return { ...whole, storedBytes: text.length, files: archive.entries.length, came: 0, patched: 0 }
}

/** Runs what reads the contents of a base, and nothing else that can be damaged. */
async function readingBase<T>(work: () => Promise<T>): Promise<T> {
  return await work().catch((error: unknown) => {
    throw unreadable(error)
  })
}

/** Returns the refusal of a base that is damaged; other errors as they are. */
function unreadable(cause: unknown): unknown {
  return isDamage(cause) ? baseGone('cannot be read any more', cause) : cause
}

function isDamage(error: unknown): boolean {
  return error instanceof Refusal || hasCode(error, 'EIO', 'EISDIR', 'EACCES')
}

function baseGone(why: string, cause?: unknown): Refusal {
  const sentence = `The earlier release ${why}. Send the whole archive`
  return new Refusal('conflict', 'base_gone', sentence, { field: 'base', cause })
}

/** Returns the entries of a base with the digests of its manifest. Contents that are not in it are read. */
async function treeOfBase(archive: Archive, { manifest, treeSha256 }: Base): Promise<TimedEntry[]> {
  const found = await readingBase(() =>
    entriesOfArchive(archive, { digest: entries => takeDigests(entries, manifest) })
  )
  if (treeSha256 === undefined || digestOf(found) === treeSha256) return found
  return readingBase(() => entriesOfArchive(archive))
}

/** Gives the entries, which are sorted, the digests of a manifest. What a torn or missing one does not say is read. */
async function takeDigests(entries: readonly TimedEntry[], manifest: string): Promise<void> {
  if (!existsSync(manifest)) return
  let at = 0
  try {
    for await (const { path, size, sha256 } of readManifest(manifest)) {
      while (at < entries.length && compareTreePaths((entries[at] as TimedEntry).path, path) < 0) at++
      const entry = entries[at]
      if (entry?.path === path && entry.size === size) entry.sha256 = sha256
    }
  } catch (error) {
    if (!isDamage(error)) throw error
  }
}

function digestOf(entries: readonly TimedEntry[]): string {
  const digest = createTreeDigest()
  for (const entry of entries) digest.add(entry)
  return digest.end()
}

function writeBase(entries: readonly TimedEntry[]): Uint8Array<ArrayBuffer> {
  return new Uint8Array(gzipSync([...writeTree(entries, digestOf(entries))].join('')))
}

async function assemble(archive: Archive, task: AssembleTask & { weigh: Weigh }): Promise<Assembled> {
  const { base, sent, to, sharesWith, limits, weigh } = task
  const { maxArchiveBytes, ...readLimits } = limits
  const { openArchive } = await import('../archive/read.js')
  const contents = await openArchive(sent.contents, { ...readLimits, mayBeEmpty: true })
  const rebuiltPath = `${to}.rebuilt`
  try {
    weigh(bytesOf(contents))
    const { composed, ...counts } = await prepare(archive, contents, { ...task, rebuiltPath })
    // What was sent has been read: only the base can still be damaged.
    const result = await readingBase(() =>
      sharesWith === undefined || !mayBePack(archive, base.archive)
        ? composeWhole(to, composed)
        : shareArchive(to, composed, { archive, path: base.archive, deployId: sharesWith })
    )
    if (result.bytes > maxArchiveBytes) throw archiveTooLarge(maxArchiveBytes)
    return { ...result, ...counts }
  } finally {
    contents.close()
    await rm(rebuiltPath, { force: true })
  }
}

/** Checks what was sent, and returns where the contents of each entry are. The trees are not needed any longer then. */
async function prepare(
  archive: Archive,
  contents: Archive,
  { base, sent, patches, treeSha256, limits, weigh, rebuiltPath }: AssembleTask & { weigh: Weigh; rebuiltPath: string }
): Promise<Pick<Assembled, 'files' | 'came' | 'patched'> & { composed: ComposedEntry[] }> {
  const { maxArchiveBytes } = limits
  const earlier = await treeOfBase(archive, base)
  const { entries, changed } = applyDelta(await readFile(sent.delta), { base: earlier, treeSha256 })
  const patch = patches === undefined ? null : await readPatches(contents, patches, entries)
  const files = contents.entries.filter(({ kind, path }) => kind !== 'directory' && path !== patches)
  await checkContents({ ...contents, entries: files }, changed)
  const isSent = new Set(files.map(({ path }) => path))
  const rebuilding = { archive, changed, isSent, to: rebuiltPath, maxArchiveBytes, reading: readingBase, weigh }
  const rebuilt = patch === null ? [] : await rebuild({ ...rebuilding, patches: patch })
  const isRebuilt = new Set(rebuilt.map(({ path }) => path))
  const moved = new Map(Array.from(changed, ({ sha256 }) => [sha256, undefined as string | undefined]))
  for (const { path, sha256 } of earlier) if (moved.has(sha256)) moved.set(sha256, path)
  const packedBytes = new Map(
    [...archive.entries, ...files, ...rebuilt].map(({ path, compressedSize }) => [path, compressedSize])
  )
  const missing: string[] = []
  let bytes = 0
  const composed: ComposedEntry[] = contents.entries.filter(({ kind }) => kind === 'directory').map(directoryOf)
  for (const entry of entries) {
    const { path, mode, mtimeMs, sha256 } = entry
    const source = isSent.has(path) ? sent.contents : isRebuilt.has(path) ? rebuiltPath : base.archive
    const sourcePath = changed.has(entry) && source === base.archive ? moved.get(sha256) : path
    if (sourcePath === undefined) {
      missing.push(path)
      continue
    }
    bytes += packedBytes.get(sourcePath) ?? 0
    composed.push({ path, mode, mtimeMs, source, sourcePath })
  }
  if (missing.length > 0) throw incomplete(missing)
  if (bytes > maxArchiveBytes) throw archiveTooLarge(maxArchiveBytes)
  return { composed, files: entries.length, came: files.length + rebuilt.length, patched: rebuilt.length }
}

/**
 * Whether others may name entries of a kept archive by their numbers. A whole one with a pack beside it was made for nodes:
 * its name means the pack, which numbers other entries.
 */
function mayBePack({ packs, file }: Archive, path: string): boolean {
  return packs !== undefined || !(endsLikePack(file) || existsSync(besideArchive(path, 'pack')))
}

async function composeWhole(
  to: string,
  entries: readonly ComposedEntry[]
): Promise<Composed & { storedBytes: number }> {
  const composed = await composeArchive(to, entries)
  return { ...composed, storedBytes: composed.bytes }
}

function directoryOf({ path, mode, mtimeMs }: ArchiveEntry): ComposedEntry {
  return { path, mode: packedMode({ kind: 'directory', mode }), mtimeMs: mtimeMs ?? 0, source: null }
}

/** Returns the differences within files, the contents of the entry with this name. Refuses 400 `invalid_patch`. */
async function readPatches(contents: Archive, name: string, entries: readonly TimedEntry[]): Promise<Uint8Array> {
  const entry = contents.entries.find(({ path }) => path === name)
  if (entry?.kind !== 'file') throw invalidPatch(`the archive does not contain ${quoteName(name)}`)
  if (entries.some(({ path }) => path === name)) throw invalidPatch(`${quoteName(name)} is a file of the tree`)
  if (entry.size > maxPatchBytes) throw invalidPatch(`they have more than ${formatBytes(maxPatchBytes)}`)
  const pieces: Buffer[] = []
  await createEntryReader(contents).read(entry, piece => void pieces.push(Buffer.from(piece)))
  return Buffer.concat(pieces)
}

/** Refuses (400 `assembly_differs`) sent contents that are not those that the tree names. */
async function checkContents(contents: Archive, changed: ReadonlySet<TimedEntry>): Promise<void> {
  const wanted = new Map(Array.from(changed, entry => [entry.path, entry]))
  for (const { path, sha256, size } of await entriesOfArchive(contents)) {
    const entry = wanted.get(path)
    if (entry?.sha256 === sha256 && entry.size === size) continue
    const why = entry === undefined ? 'the tree does not say that it changed' : 'it changed after it was compared'
    throw new Refusal('invalid', 'assembly_differs', `Cannot use ${quoteName(path)}: ${why}. Push again`, {
      field: 'file'
    })
  }
}

const maxNamed = 20

function incomplete(missing: readonly string[]): Refusal {
  const named = missing.slice(0, maxNamed).map(quoteName).join(', ')
  const more = missing.length > maxNamed ? `, and ${missing.length - maxNamed} more` : ''
  const sentence = `The upload lacks the contents of ${countOf(missing.length, 'file')}: ${named}${more}`
  return new Refusal('invalid', 'assembly_incomplete', sentence, { field: 'file' })
}

/*
 * The thread that reads kept archives. A small one is read without it: starting a thread takes longer.
 */

/** An idle thread ends after this time, which frees its memory. */
const idleMs = 10_000
/** Total size of the archives from which a thread does a task. */
const defaultThreadBytes = 1024 * 1024

/** Maximum number of bytes that a task inflates without the thread: a small archive can contain very much. */
const maxHereBytes = 16 * 1024 * 1024

/** Thrown by a task that is too large for the thread of the server. It has left nothing behind. */
class TooMuchHere extends Error {}

/** The default of 48 MB would only be filled with garbage. */
const maxYoungGenerationSizeMb = 8
/** Several times what 200,000 entries need. With the default, the heap grows to four times its size before a collection. */
const maxOldGenerationSizeMb = 512

/** Does tasks on kept archives. */
export type BaseThread = ReturnType<typeof createBaseThread>

/** Creates the thread, which starts when there is work. */
export function createBaseThread({ threadBytes = defaultThreadBytes } = {}) {
  const pool = createWorkerPool<BaseTask, BaseResult>({
    module: new URL('./assemble-worker.js', import.meta.url),
    resourceLimits: { maxYoungGenerationSizeMb, maxOldGenerationSizeMb },
    maxBusy: 1,
    idleMs
  })
  async function run(task: BaseTask): Promise<BaseResult> {
    const paths = [task.base.archive, ...(task.kind === 'assemble' ? [task.sent.contents] : [])]
    const sizes = await Promise.all(paths.map(sizeOfKept))
    const isSmall = sizes.reduce((sum, bytes) => sum + bytes, 0) < threadBytes
    let leftBytes = isSmall ? maxHereBytes : 0
    const weigh: Weigh = bytes => {
      leftBytes -= bytes
      if (leftBytes < 0) throw new TooMuchHere()
    }
    const here = isSmall ? doBaseTask(task, weigh) : Promise.reject(new TooMuchHere())
    return await here.catch((error: unknown) => {
      if (error instanceof TooMuchHere) return pool.use(thread => thread.ask(task), { endsAfter: isLarge })
      throw error
    })
  }
  return {
    /** Returns the tree of a kept archive (archive/tree-wire.ts), compressed. Refuses as `doBaseTask`. */
    readTree: async (base: Base): Promise<Uint8Array> => (await run({ kind: 'tree', base })) as Uint8Array,

    /** Returns the sums of files of a kept archive (rebuild.ts). Refuses as `doBaseTask`, and 400 `invalid_field`. */
    readSums: async (base: Base, lines: readonly number[]): Promise<Uint8Array> =>
      (await run({ kind: 'sums', base, lines })) as Uint8Array,

    /** Makes a whole archive. Refuses as `doBaseTask`. */
    assemble: async (task: Omit<AssembleTask, 'kind'>): Promise<Assembled> =>
      (await run({ kind: 'assemble', ...task })) as Assembled,

    /** Ends idle threads. */
    close: (): Promise<void> => pool.close()
  }
}

/** The result of a task with so many files, or such a tree, leaves a large heap; starting a thread costs little beside it. */
const [largeFiles, largeTreeBytes] = [20_000, 512 * 1024]

function isLarge(result: BaseResult): boolean {
  return 'files' in result ? result.files >= largeFiles : result.length >= largeTreeBytes
}

/** Returns the size of the whole archive; Infinity if it cannot be read. */
async function sizeOfKept(path: string): Promise<number> {
  const found = await findKept(path)
  if (found === null) return 0
  try {
    return found.isShared ? readIndex(await readFile(found.path), '').bytes : (await stat(found.path)).size
  } catch {
    return Infinity
  }
}

/*
 * Writes an archive that shares contents with its base: a pack of the entries that the base does not have, and the index
 * of all (core/archive/pack-index.ts). The packed bytes of the base are read for the SHA-256 of the whole zip, and not
 * copied.
 */

/** The archive that entries are shared with. */
interface SharedBase {
  archive: Archive
  /** Its path, which names it as the source of entries. */
  path: string
  deployId: string
}

/** An archive that shares contents. */
interface Shared extends Composed {
  /** Size of its own files in bytes. */
  storedBytes: number
}

/** An archive of more packs than these gets the entries of all but the largest ones into its own. */
const maxPacks = 24
const packsLeft = 12

/** Writes `<to>.index` and `<to>.pack`, which is synced, in place of `<to>.zip`. Refuses like `composeArchive`. */
export async function shareArchive(to: string, entries: readonly ComposedEntry[], base: SharedBase): Promise<Shared> {
  const [packPath, indexPath] = [besideArchive(to, 'pack'), besideArchive(to, 'index')]
  const { placed, own } = placesOf(entries, base)
  let ownFile: OpenFile | null = null
  try {
    const packs = [...packsOf(base)]
    if (own.length > 0) {
      await composeArchive(packPath, own)
      ownFile = new OpenFile(packPath)
      const pack = await openPack(ownFile, '')
      const found = new Map(pack.entries.map(({ path }, at) => [path, at]))
      for (const entry of own) addTo(placed, { entry, pack: packs.length, ordinal: found.get(entry.path) as number })
      packs.push(pack)
    }
    const { used, ...drafted } = draftOf(placed, packs)
    const { bytes, sha256, directorySha256 } = await digestPackSet(drafted, used)
    const names = used.map(({ name }) => name)
    const text = writeIndex({ base: base.deployId, packs: names, ...drafted, bytes, directorySha256 })
    await writeFile(indexPath, text, { mode: 0o600 })
    return { bytes, sha256, storedBytes: text.length + (ownFile?.size ?? 0) }
  } catch (error) {
    for (const path of [packPath, indexPath]) await rm(path, { force: true }).catch(() => {})
    throw error
  } finally {
    ownFile?.close()
  }
}

/** Returns the packs of a base; a whole archive is one. */
function packsOf({ archive, deployId: name }: SharedBase): readonly Pack[] {
  if (archive.packs !== undefined) return archive.packs.packs
  const { file, entries } = archive
  return [{ name, file, entries, entryOf: at => entries[at], numberAt: at => at }]
}

/** Entries and their places in packs, in columns: objects would take several times the memory. */
interface Placed {
  entries: ComposedEntry[]
  packs: number[]
  ordinals: number[]
}

function addTo(
  placed: Placed,
  { entry, pack, ordinal }: { entry: ComposedEntry; pack: number; ordinal: number }
): void {
  placed.entries.push(entry)
  placed.packs.push(pack)
  placed.ordinals.push(ordinal)
}

/** Finds out which entries are shared, and which the pack of the archive must contain. */
function placesOf(
  entries: readonly ComposedEntry[],
  { archive, path: basePath }: SharedBase
): { placed: Placed; own: ComposedEntry[] } {
  const positions = new Map(archive.entries.map(({ path }, at) => [path, at]))
  const bytesOf = new Map<number, number>()
  const own: ComposedEntry[] = []
  const placed: Placed = { entries: [], packs: [], ordinals: [] }
  for (const entry of entries) {
    if (entry.source !== basePath) {
      own.push(entry)
      continue
    }
    const at = positions.get(entry.sourcePath ?? entry.path)
    if (at === undefined) throw refuse('damaged_archive', entry.path, 'the archive does not contain it')
    const { pack, ordinal } = archive.packs?.placeOf(at) ?? { pack: 0, ordinal: at }
    addTo(placed, { entry, pack, ordinal })
    bytesOf.set(pack, (bytesOf.get(pack) ?? 0) + (archive.entries[at] as ArchiveEntry).compressedSize)
  }
  if (bytesOf.size <= maxPacks) return { placed, own }
  const largest = [...bytesOf].sort(([, a], [, b]) => b - a).slice(0, packsLeft)
  const left = new Set(largest.map(([pack]) => pack))
  const staying: Placed = { entries: [], packs: [], ordinals: [] }
  for (const [at, entry] of placed.entries.entries()) {
    const [pack, ordinal] = [placed.packs[at] as number, placed.ordinals[at] as number]
    if (left.has(pack)) addTo(staying, { entry, pack, ordinal })
    else own.push(entry)
  }
  return { placed: staying, own }
}

type Draft = Pick<PackIndex, 'runs' | 'paths' | 'modes' | 'times'> & { used: Pack[] }

/** Returns the entries in the order of the packs and of their bytes, so that neighbours are one run. */
function draftOf(placed: Placed, packs: readonly Pack[]): Draft {
  const packOf = (at: number): number => placed.packs[at] as number
  const ordinalOf = (at: number): number => placed.ordinals[at] as number
  const sorted = [...placed.entries.keys()].sort((a, b) => packOf(a) - packOf(b) || ordinalOf(a) - ordinalOf(b))
  const used: Pack[] = []
  const numberOf = new Map<number, number>()
  const [runs, times]: [number[], number[]] = [[], []]
  const [paths, modes]: [PackIndex['paths'], PackIndex['modes']] = [[], []]
  let [lastPosition, lastSeconds] = [0, 0]
  for (const [position, which] of sorted.entries()) {
    const [pack, ordinal, entry] = [packOf(which), ordinalOf(which), placed.entries[which] as ComposedEntry]
    const from = packs[pack] as Pack
    let number = numberOf.get(pack)
    if (number === undefined) {
      number = used.push(from) - 1
      numberOf.set(pack, number)
    }
    const at = runs.length - 3
    const isNext = at >= 0 && runs[at] === number && (runs[at + 1] as number) + (runs[at + 2] as number) === ordinal
    if (isNext) (runs[at + 2] as number)++
    else runs.push(number, ordinal, 1)
    const packed = from.entryOf(ordinal) as ArchiveEntry
    if (packed.path !== entry.path) paths.push([position, entry.path])
    if (packedMode(packed) !== entry.mode) modes.push([position, entry.mode])
    const seconds = secondsOf(entry.mtimeMs)
    if (secondsOf(packed.mtimeMs) === seconds) continue
    times.push(position - lastPosition, seconds - lastSeconds)
    lastPosition = position
    lastSeconds = seconds
  }
  return { used, runs, paths, modes, times }
}
