/*
 * `trees/<projectId>.tree`: the files and symbolic links that svc put into the target of a project and has neither
 * replaced nor removed since, whichever deployment they came with, and the directories that it made.
 *
 *   svc-owned 2 <deployId> <sequence> <target> <stamp>   the last deployment in it, its number, the deployPath as JSON, and
 *                                                        which changes of its scripts are in it; nothing if there are none
 *   <mode> <size> <mtimeMs> <ino> <sha256> <since> <path>  one line for each entry; `-` for what is not known; after the
 *                                                        mode `:` and the group, if svc gave it one; after mtimeMs `:`
 *                                                        and the time of the last change of the inode, if it is known
 *   end <lines> <crc>                                    the number of entries, and the CRC-32 of their lines in hex
 *
 * Mode and path are those of base/shared/tree-text.ts, and so is the order. A directory has the mode 40000, the size 0 and a
 * SHA-256 of zeros. `since` is the deployment that put the entry there. A tree is the fold of the manifests of all deployments that changed the target, in their order, so a lost or
 * torn file can always be made again. It is complete or absent: it is written under another name, synced, and renamed.
 *
 * Folding reads and writes streams of lines, and keeps a few lines in memory, whatever the number of files.
 */
import { createReadStream, existsSync } from 'node:fs'
import { open, realpath, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { crc32 } from '../../base/digests.js'
import { maxLineBytes } from '../../base/text.js'
import { syncDirectory, throughBeside } from '../../base/files.js'
import { hasCode, Refusal } from '../../base/errors.js'
import {
  createTextDigest,
  createTreeDigest,
  type ManifestLine,
  type OwnedEntry,
  pathOfLine
} from '../../model/manifest.js'
import type { DigestedList, ReceiptFiles } from '../../model/receipt.js'
import { compareTreePaths, fileType } from '../../base/shared/tree-text.js'
import { createWorkerPool } from '../../base/workers.js'
import { isChanged, isRemovedFile, readManifestLines } from './manifest.js'
import { readScripted, withScripted } from './scripted-file.js'

/** The first line of a tree. */
export interface OwnedHead {
  /** The last deployment whose manifest is in the tree. */
  deployId: string
  /** Its number among the changes of the target (`placed`). */
  sequence: number
  /** The deployPath of the project at that time. */
  target: string
  /** Which file of changes by scripts of this deployment is in it (`stampOf` in deploy/trees.ts); absent: none. */
  scripted?: string
}

/** A tree that cannot be used: it is missing, torn, or of another version. It must be made again from the manifests. */
export class UnusableTree extends Error {
  readonly code = 'ERR_UNUSABLE_TREE'
}

/** Whether an error is an `UnusableTree`, which loses its class between threads. */
export function isUnusableTree(error: unknown): boolean {
  return hasCode(error, 'ERR_UNUSABLE_TREE')
}

const version = 'svc-owned 2'
/** Bytes of text that are collected before a write. */
const batchLength = 64 * 1024
const crcDigits = 8
const newline = 10
const endMark = 'end '

/** Reads the first line of a tree. Throws `UnusableTree`. */
export async function readOwnedHead(path: string): Promise<OwnedHead> {
  for await (const block of blocksOf(path)) return parseHead(block.toString('utf8', 0, endOfLine(block)))
  throw new UnusableTree(`"${path}" is empty`)
}

/** The mode of a directory in a tree. */
export const directoryMode = 0o040000

/** Whether an entry of a tree is a directory. */
export function isDirectory({ mode }: Pick<OwnedEntry, 'mode'>): boolean {
  return mode === directoryMode
}

/** Yields the files and links of a tree like `readOwnedEntries`. */
export async function* readOwnedTree(from: string | Uint8Array): AsyncGenerator<OwnedEntry> {
  for await (const entry of readOwnedEntries(from)) if (!isDirectory(entry)) yield entry
}

/** Yields the entries of a tree like `readOwnedBatches`, one by one. */
export async function* readOwnedEntries(from: string | Uint8Array): AsyncGenerator<OwnedEntry> {
  for await (const batch of readOwnedBatches(from)) yield* batch
}

/**
 * Yields the entries of a tree, given by its path or its contents, in canonical order, as many at a time as were read.
 * Each must be iterated to its end before the next is asked for: its entries are made on the way, so that few are in
 * memory. Throws `UnusableTree` if the tree is incomplete, which may be noticed only at its end.
 */
export async function* readOwnedBatches(from: string | Uint8Array): AsyncGenerator<Iterable<OwnedEntry>> {
  let count = 0

  function* entriesOf(text: string): Generator<OwnedEntry> {
    for (let at = 0, to = 0; at < text.length; at = to + 1) {
      to = text.indexOf('\n', at)
      if (to === -1) to = text.length
      count++
      yield parseEntry(text.slice(at, to))
    }
  }

  for await (const lines of linesOfEntries(from, () => count)) yield entriesOf(lines.toString())
}

/** Reads a tree to its end. Throws `UnusableTree` if it is not as it was written. */
async function checkOwnedTree(path: string): Promise<void> {
  let count = 0
  for await (const lines of linesOfEntries(path, () => count))
    for (let at = lines.indexOf(newline); at !== -1; at = lines.indexOf(newline, at + 1)) count++
}

/** Yields the lines of the entries of a tree, many at a time. Throws `UnusableTree`. `countOf` returns their number. */
async function* linesOfEntries(from: string | Uint8Array, countOf: () => number): AsyncGenerator<Buffer> {
  let crc = 0
  let end: string | null = null
  let isFirst = true
  for await (const block of blocksOf(from)) {
    if (end !== null) throw new UnusableTree(`${nameOf(from)} is damaged`)
    const start = isFirst ? endOfLine(block) + 1 : 0
    if (isFirst) parseHead(block.toString('utf8', 0, start - 1))
    isFirst = false
    const last = Math.max(start, block.lastIndexOf(newline, -2) + 1)
    if (block.toString('latin1', last, last + endMark.length) === endMark)
      end = block.toString('utf8', last).replace(/\n$/, '')
    const lines = block.subarray(start, end === null ? block.length : last)
    crc = crc32(lines, crc)
    yield lines
  }
  if (end === null) throw new UnusableTree(`${nameOf(from)} is incomplete`)
  if (end !== endLine(countOf(), crc)) throw new UnusableTree(`${nameOf(from)} is damaged`)
}

function nameOf(from: string | Uint8Array): string {
  return typeof from === 'string' ? `"${from}"` : 'The tree'
}

/**
 * Writes the tree of the entries, which must be in canonical order. The file and its name are on disk when this
 * resolves. If it rejects, an existing tree is unchanged.
 */
export async function writeOwnedTree(path: string, head: OwnedHead, entries: AsyncIterable<OwnedEntry>): Promise<void> {
  await throughBeside(path, async beside => {
    const file = await open(beside, 'w', 0o600)
    try {
      for await (const batch of textOf(head, entries)) await file.writeFile(batch)
      await file.datasync()
    } finally {
      await file.close()
    }
  })
  await syncDirectory(dirname(path))
}

/** Returns the contents of the tree of the entries, which must be in canonical order. */
export async function ownedContents(head: OwnedHead, entries: AsyncIterable<OwnedEntry>): Promise<Uint8Array> {
  const batches: Buffer[] = []
  for await (const batch of textOf(head, entries)) batches.push(batch)
  return Buffer.concat(batches)
}

async function* textOf(
  { deployId, sequence, target, scripted }: OwnedHead,
  entries: AsyncIterable<OwnedEntry>
): AsyncGenerator<Buffer> {
  const stamp = scripted === undefined ? '' : ` ${scripted}`
  yield Buffer.from(`${version} ${deployId} ${sequence} ${JSON.stringify(target)}${stamp}\n`)
  let [crc, count] = [0, 0]
  let lines: string[] = []
  let length = 0
  const takeBatch = (): Buffer => {
    const batch = Buffer.from(lines.join(''))
    crc = crc32(batch, crc)
    lines = []
    length = 0
    return batch
  }
  for await (const entry of entries) {
    const line = formatEntry(entry)
    lines.push(line)
    length += line.length
    count++
    if (length >= batchLength) yield takeBatch()
  }
  yield takeBatch()
  yield Buffer.from(`${endLine(count, crc)}\n`)
}

/** A line of a manifest, with the time at which the inode of its file was last changed. No manifest on disk says that. */
export type TimedLine = ManifestLine & { ctimeMs?: number }

/**
 * Yields the entries of a tree after a deployment with this manifest: its files replace those at the same path, the
 * entries that it removed are gone, its new directories are added, and all others stay. Both must be in canonical order.
 */
export async function* foldManifest(
  owned: AsyncIterable<OwnedEntry>,
  manifest: AsyncIterable<TimedLine>,
  since: string
): AsyncGenerator<OwnedEntry> {
  const [left, right] = [owned[Symbol.asyncIterator](), manifest[Symbol.asyncIterator]()]
  try {
    let [own, line] = [await left.next(), await right.next()]
    while (!own.done || !line.done) {
      const order = own.done ? 1 : line.done ? -1 : compareTreePaths(own.value.path, pathOfLine(line.value))
      const earlier = own.done ? null : own.value
      if (order <= 0) {
        if (order < 0) yield own.value
        own = await left.next()
      }
      if (order >= 0) {
        const entry = ownedOf(line.value, since, order === 0 ? earlier : null)
        if (entry !== null) yield entry
        line = await right.next()
      }
    }
  } finally {
    await left.return?.()
    await right.return?.()
  }
}

/** Returns the entry that a line of a manifest leaves in the target; null if it removed one. */
function ownedOf(line: TimedLine, since: string, earlier: OwnedEntry | null): OwnedEntry | null {
  if ('removed' in line) return null
  if ('made' in line)
    return { path: line.made, mode: directoryMode, size: 0, sha256: noContents, mtimeMs: null, ino: null, since }
  const { path, mode, size, sha256, mtimeMs, ino, ctimeMs } = line
  // A file that stays keeps the group that it had, also after the policy that gave it.
  const gid = line.gid === undefined && ino != null && ino === earlier?.ino ? earlier.gid : line.gid
  const time = ctimeMs === undefined ? {} : { ctimeMs }
  const entry = { path, mode, size, sha256, mtimeMs: mtimeMs ?? null, ...time, ino: ino ?? null, since }
  return gid == null ? entry : { ...entry, gid }
}

/** Stands for the SHA-256 of a directory. */
export const noContents = '0'.repeat(64)

/**
 * Yields a tree, given by its path or its contents, in blocks of whole lines; the last line may lack its end. Throws
 * `UnusableTree` if the file does not exist, or has a line that is too long.
 */
async function* blocksOf(from: string | Uint8Array): AsyncGenerator<Buffer> {
  let held: Buffer = Buffer.alloc(0)
  try {
    for await (const piece of typeof from === 'string' ? createReadStream(from) : piecesOf(from)) {
      const bytes = piece as Buffer
      const end = bytes.lastIndexOf(newline) + 1
      if (end > 0) yield held.length === 0 ? bytes.subarray(0, end) : Buffer.concat([held, bytes.subarray(0, end)])
      held = end > 0 ? bytes.subarray(end) : Buffer.concat([held, bytes])
      if (held.length > maxLineBytes) throw new UnusableTree(`${nameOf(from)} is damaged`)
    }
  } catch (error) {
    if (hasCode(error, 'ENOENT')) throw new UnusableTree(`"${from}" does not exist`)
    if (hasCode(error, 'EISDIR')) throw new UnusableTree(`"${from}" is a directory`)
    throw error
  }
  if (held.length > 0) yield held
}

function endOfLine(block: Buffer): number {
  const end = block.indexOf(newline)
  return end === -1 ? block.length : end
}

function* piecesOf({ buffer, byteOffset, length }: Uint8Array): Generator<Buffer> {
  const contents = Buffer.from(buffer, byteOffset, length)
  for (let at = 0; at < length; at += batchLength) yield contents.subarray(at, at + batchLength)
}

function parseHead(line: string): OwnedHead {
  const [, deployId, sequence, target, scripted] = /^svc-owned 2 (\S+) (\d+) (".*")(?: ([\w:.]+))?$/.exec(line) ?? []
  if (deployId === undefined || sequence === undefined || target === undefined) {
    throw new UnusableTree('The first line is not that of a tree')
  }
  try {
    return {
      deployId,
      sequence: Number(sequence),
      target: JSON.parse(target) as string,
      ...(scripted !== undefined && { scripted })
    }
  } catch (error) {
    throw new UnusableTree('The target in the first line is not readable', { cause: error })
  }
}

function endLine(count: number, crc: number): string {
  return `end ${count} ${crc.toString(16).padStart(crcDigits, '0')}`
}

function formatEntry({ mode, size, mtimeMs, ino, ctimeMs, gid, sha256, since, path }: OwnedEntry): string {
  const group = gid === undefined ? '' : `:${gid}`
  const times = `${mtimeMs ?? '-'}${ctimeMs === undefined ? '' : `:${ctimeMs}`}`
  return `${mode.toString(8)}${group} ${size} ${times} ${ino ?? '-'} ${sha256} ${since} ${path}\n`
}

const entryPattern = /^([0-7]+)(?::(\d+))? (\d+) (-|-?[\d.e+]+)(?::(-?[\d.e+]+))? (-|\d+) ([0-9a-f]{64}) (\S+) (.+)$/s

function parseEntry(line: string): OwnedEntry {
  const found = entryPattern.exec(line)
  if (found === null) throw new UnusableTree('A line is not that of a tree')
  const [, mode, gid, size, mtimeMs, ctimeMs, ino, sha256, since, path] = found as unknown as string[]
  return {
    path: path as string,
    mode: Number.parseInt(mode as string, 8),
    size: Number(size),
    sha256: sha256 as string,
    mtimeMs: mtimeMs === '-' ? null : Number(mtimeMs),
    ino: ino === '-' ? null : Number(ino),
    ...(ctimeMs !== undefined && { ctimeMs: Number(ctimeMs) }),
    since: since as string,
    ...(gid !== undefined && { gid: Number(gid) })
  }
}

/*
 * The current location of a target, for comparing two targets. A lineage contains the directory and all directories
 * above it, each by its real path and by its device and inode. The latter also identifies one directory under two paths
 * (a bind mount, a file system that ignores case).
 */

/** The location of a directory. */
export interface Lineage {
  /** The path without links. The part that does not exist is unchanged. */
  readonly real: string
  /** The names of the directory itself: its real path, and its device and inode. */
  readonly self: readonly string[]
  /** The names of the directory and of all directories above it. */
  readonly all: ReadonlySet<string>
}

/** Looks up the location of an absolute path. Throws if it cannot be determined (a loop of links). */
export async function lineageOf(path: string): Promise<Lineage> {
  const real = await realPlaceOf(path)
  const self = await namesOf(real)
  const all = new Set(self)
  for (let at = real; at !== dirname(at); ) {
    at = dirname(at)
    for (const name of await namesOf(at)) all.add(name)
  }
  return { real, self, all }
}

/** Whether both are the same directory, or one contains the other. */
export function areOverlapping(one: Lineage, other: Lineage): boolean {
  return one.self.some(name => other.all.has(name)) || other.self.some(name => one.all.has(name))
}

async function namesOf(directory: string): Promise<string[]> {
  const stats = await stat(directory, { bigint: true }).catch(() => null)
  return stats === null ? [directory] : [directory, `${stats.dev}:${stats.ino}`]
}

async function realPlaceOf(path: string): Promise<string> {
  try {
    return await realpath(path)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if ((code !== 'ENOENT' && code !== 'ENOTDIR' && code !== 'EACCES') || path === dirname(path)) throw error
    return join(await realPlaceOf(dirname(path)), basename(path))
  }
}

/*
 * Folds manifests into an owned tree, and checks a tree. Both read and write whole files, line by line, which takes
 * about 6 us of processor time per line: a thread does it if there are many.
 */

/** A manifest to fold. */
export interface FoldedManifest {
  path: string
  /** The path of what the scripts of the deployment changed (scripted-file.ts); absent: nothing. */
  scripted?: string
  deployId: string
  /** Number of files that it must contain at least. */
  fileCount: number
  /** The times of the last changes of its files, in its order (`changeTimes`); absent: none is known. */
  ctimes?: Float64Array | undefined
  /** The digests of all releases, that of its own, and what its receipt says; absent: it is believed. */
  digests?: { own: string | undefined; all: ReadonlySet<string>; files: ReceiptFiles | null }
}

/** What to do with a tree, as plain data. */
export type FoldTask =
  | { kind: 'check'; path: string }
  | {
      kind: 'fold'
      path: string
      /** The head of the new tree. */
      head: OwnedHead
      /** Whether the existing tree is ignored. */
      isAnew: boolean
      /** In the order of their deployments. */
      manifests: FoldedManifest[]
    }
  | DigestTask

/** A manifest whose contents a receipt names. */
export interface DigestTask {
  kind: 'digest'
  path: string
  /** Number of files that it must contain at least. */
  fileCount: number
  /** The tree of the release; null: none is known. */
  treeSha256: string | null
}

/** What a receipt says about a manifest. `dirHash` is that of the whole release; null if only a part of it was put in place. */
export interface DigestedManifest {
  files: ReceiptFiles
  dirHash: string | null
}

/** A manifest that is incomplete. The tree contains what could be read of it. */
export interface TornManifest {
  deployId: string
  reason: string
}

/** A list of which only the digest is kept. */
function createList() {
  const text = createTextDigest()
  let count = 0
  return {
    add(line: string): void {
      count++
      text.add(line)
    },
    end: (): DigestedList => ({ count, sha256: text.end() })
  }
}

/** Digests the lines of a manifest as a receipt does. */
export function createFilesDigest() {
  const [added, changed, removed] = [createList(), createList(), createList()]
  let placed = 0
  return {
    add(line: ManifestLine): void {
      if (isRemovedFile(line)) removed.add(`${line.removed}\n`)
      if (!('path' in line)) return
      placed++
      if (line.before === null) added.add(sumOf(line))
      else if (isChanged(line)) changed.add(sumOf(line))
    },
    end: (): ReceiptFiles => ({ placed, added: added.end(), changed: changed.end(), removed: removed.end() })
  }
}

function sumOf({ sha256, path }: { sha256: string; path: string }): string {
  return `${sha256}  ${path}\n`
}

/** Whether what was digested is what a receipt says. */
export function isOfReceipt(found: ReceiptFiles, told: ReceiptFiles): boolean {
  const isSame = (key: 'added' | 'changed' | 'removed'): boolean => found[key].sha256 === told[key].sha256
  return found.placed === told.placed && isSame('added') && isSame('changed') && isSame('removed')
}

/** Returns what a receipt says about a manifest. Refuses 409 `torn_manifest`. */
export async function digestManifest({ path, fileCount, treeSha256 }: DigestTask): Promise<DigestedManifest> {
  const [files, contents, tree] = [createFilesDigest(), createList(), createTreeDigest()]
  for await (const line of readManifestLines(path, fileCount)) {
    files.add(line)
    if (!('path' in line)) continue
    if ((line.mode & typeBits) === fileType) contents.add(sumOf(line))
    tree.add(line)
  }
  // A way back and a repair put only a part of a release in place.
  const isWhole = tree.end() === treeSha256
  return { files: files.end(), dirHash: isWhole ? contents.end().sha256 : null }
}

const typeBits = 0o170000

/**
 * Does a task, and returns the torn manifests. If a manifest is lost or torn, the tree lacks files: svc then takes them
 * for files of somebody else. Throws `UnusableTree` if the existing tree is missing or torn. Refuses, and writes nothing:
 * 409 `torn_manifest` if a manifest is that of another release.
 */
export async function doFoldTask(task: Exclude<FoldTask, DigestTask>): Promise<TornManifest[]> {
  if (task.kind === 'check') {
    await checkOwnedTree(task.path)
    return []
  }
  const torn: TornManifest[] = []
  let entries: AsyncIterable<OwnedEntry> = task.isAnew ? noEntries() : readOwnedEntries(task.path)
  for (const each of task.manifests) {
    const lines = foldedLines(each, torn)
    const all = each.scripted === undefined ? lines : withScripted(lines, readScripted(each.scripted), each.deployId)
    entries = foldManifest(entries, all, each.deployId)
  }
  await writeOwnedTree(task.path, task.head, entries)
  return torn
}

async function* noEntries(): AsyncGenerator<OwnedEntry> {}

/** Yields the lines of a manifest in canonical order. */
async function* foldedLines(
  { path, deployId, fileCount, ctimes, digests }: FoldedManifest,
  torn: TornManifest[]
): AsyncGenerator<TimedLine> {
  if (!existsSync(path)) return
  const older: ManifestLine[] = []
  const [digest, files] = [createTreeDigest(), createFilesDigest()]
  let file = 0
  let isTorn = false
  try {
    for await (const line of readManifestLines(path, fileCount)) {
      if (digests !== undefined && 'path' in line) digest.add(line)
      if (digests?.files != null) files.add(line)
      // Manifests of earlier versions have another order and no times.
      const ctimeMs = 'path' in line ? (ctimes?.[file++] ?? Number.NaN) : Number.NaN
      if ('path' in line && line.mtimeMs === undefined) older.push(line)
      else yield Number.isNaN(ctimeMs) ? line : { ...line, ctimeMs }
    }
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    torn.push({ deployId, reason: error.message })
    isTorn = true
  }
  const found = digest.end()
  if (found !== digests?.own && digests?.all.has(found)) throw otherRelease(deployId, path)
  // A way back is no release: only its receipt says what its list was.
  if (!isTorn && digests?.files != null && !isOfReceipt(files.end(), digests.files)) throw otherRelease(deployId, path)
  yield* older.sort((a, b) => compareTreePaths(pathOfLine(a), pathOfLine(b)))
}

/** A tree of it would mix releases, and a way back by that tree would remove files of one and keep those of the other. */
function otherRelease(deployId: string, path: string): Refusal {
  const sentence =
    `The list of files of deployment ${deployId} contradicts its record: it is that of another deployment. ` +
    `Restore the data directory from a backup, or remove "${path}": svc then owns fewer of the files in the target`
  return new Refusal('conflict', 'torn_manifest', sentence)
}

/*
 * The thread that folds and checks owned trees. A small task is done without it: starting a thread takes longer.
 * measured: bench/fold
 */

/** Does tasks on owned trees. */
export type FoldThreads = ReturnType<typeof createFoldThreads>

/** An idle thread ends after this time, which frees its memory. */
const idleMs = 10_000
/** Total size of the files of a task from which a thread does it: about 20 ms of work. */
const defaultThreadBytes = 512 * 1024
/** Young objects of the thread live as long as a block of lines; the default of 48 MB would only be filled with garbage. */
const maxYoungGenerationSizeMb = 3

/** Creates the thread, which starts when there is work. */
export function createFoldThreads({ threadBytes = defaultThreadBytes } = {}) {
  const pool = createWorkerPool<FoldTask, TornManifest[] | DigestedManifest>({
    module: new URL('./fold-worker.js', import.meta.url),
    resourceLimits: { maxYoungGenerationSizeMb },
    maxBusy: 1,
    idleMs
  })
  return {
    /** Does a task like `doFoldTask`, and throws what that throws. */
    async run(task: Exclude<FoldTask, DigestTask>): Promise<TornManifest[]> {
      if ((await bytesOf(task)) < threadBytes) return doFoldTask(task)
      return (await pool.use(thread => thread.ask(task))) as TornManifest[]
    },

    /** Does the same as `digestManifest`. */
    async digest(given: Omit<DigestTask, 'kind'>): Promise<DigestedManifest> {
      const task = { kind: 'digest', ...given } as const
      if ((await bytesOf(task)) < threadBytes) return digestManifest(task)
      return (await pool.use(thread => thread.ask(task))) as DigestedManifest
    },

    /** Ends idle threads. */
    close: (): Promise<void> => pool.close()
  }
}

async function bytesOf(task: FoldTask): Promise<number> {
  const manifests = task.kind === 'fold' ? task.manifests : []
  const paths = [task.path, ...manifests.map(({ path }) => path)]
  const sizes = await Promise.all(
    paths.map(path =>
      stat(path).then(
        ({ size }) => size,
        () => 0
      )
    )
  )
  return sizes.reduce((sum, size) => sum + size, 0)
}
