/*
 * `deployments/<id>.manifest`: the files that a deployment put in place, one line of JSON for each (model/manifest.ts),
 * sorted by the UTF-8 bytes of the path (by UTF-16 units in earlier versions). The file is complete or absent, even
 * after a power cut: it is written under another name, synced, and renamed; then the name is synced. A manifest of an
 * earlier version may be torn, because it was not synced.
 */
import { createReadStream, existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { createLineSplitter } from '../base/lines.js'
import { Refusal } from '../base/refusal.js'
import type { Changes, ManifestFile as Line } from '../model/manifest.js'
import { createTreeDigest } from '../model/tree.js'
import { defaultFileMode, fileType, linkMode, treeOrder } from '../shared/tree-text.js'
import { syncDirectory, writeFully, type Disk } from './disk.js'
import { deployIdOf } from './journal-file.js'
import type { Item } from './plan.js'
import type { Digest, Records } from './record.js'
import type { Recovery } from './undo.js'

/** Bytes that are collected before a write; a line has at most 20 KiB. */
const batchBytes = 256 * 1024
/** Maximum size in UTF-8 of one code unit of a string. */
const maxUnitBytes = 3

/** Summary of a manifest. */
export interface Manifest {
  /** Number of files and symbolic links. */
  fileCount: number
  /** Number of those that are new, or whose contents differ from before. */
  changedCount: number
  /**
   * Their paths, one per line, sorted. The text is in pieces, as bytes, which can be transferred to another thread
   * without copying.
   */
  changes: Array<Uint8Array<ArrayBuffer>>
}

/** The file that a manifest is written to. */
export interface ManifestFile {
  /** Calls `write` with the open file. Its contents and its name are on disk when this returns. */
  fill(write: (fd: number) => void): void
  /** Removes the manifest. */
  remove(): void
}

/** Returns the manifest at a path. */
export function manifestAt(disk: Disk, path: string): ManifestFile {
  const beside = unnamedManifest(path)
  return {
    fill(write) {
      const fd = disk.openSync(beside, 'w', 0o600)
      try {
        write(fd)
        disk.fdatasyncSync(fd)
      } finally {
        disk.closeSync(fd)
      }
      nameManifest(disk, path)
    },
    remove() {
      for (const each of [path, beside]) {
        if (disk.lstatSync(each, { throwIfNoEntry: false }) !== undefined) disk.unlinkSync(each)
      }
    }
  }
}

/** Returns the path of a manifest before it is renamed to its final name. */
export function unnamedManifest(path: string): string {
  return `${path}.tmp`
}

/** Renames a written and synced manifest to its final name. The name is on disk when this returns. */
export function nameManifest(disk: Disk, path: string): void {
  disk.renameSync(unnamedManifest(path), path)
  syncDirectory(disk, dirname(path))
}

/**
 * Returns the manifest of a helper process (journal-file.ts). svc has opened it, and svc also renames and removes it.
 */
export function openedManifest(disk: Disk, fd: number): ManifestFile {
  return {
    fill(write) {
      write(fd)
      disk.fdatasyncSync(fd)
    },
    remove: () => {}
  }
}

/**
 * Settles the manifest of an interrupted extraction: renames it if everything was in place, removes it if the
 * extraction was undone before that.
 */
export function settleManifest(disk: Disk, journalPath: string, recovery: Recovery): void {
  const path = join(dirname(journalPath), `${deployIdOf(journalPath)}.manifest`)
  const isUnnamed = disk.lstatSync(unnamedManifest(path), { throwIfNoEntry: false }) !== undefined
  const wasPlaced = recovery === 'complete' || recovery === 'held' || recovery === 'reverted'
  if (wasPlaced && isUnnamed) nameManifest(disk, path)
  if (recovery === 'put back' || recovery === 'untouched') manifestAt(disk, path).remove()
}

/** Returns the path of the manifest that belongs to a journal, or null. It may not have its final name yet. */
export function manifestOf(journalPath: string): string | null {
  const path = join(dirname(journalPath), `${deployIdOf(journalPath)}.manifest`)
  return [path, unnamedManifest(path)].find(existsSync) ?? null
}

/** The items of an extraction and the records about them. */
export interface Staged {
  disk: Disk
  items: readonly Item[]
  records: Records
  /**
   * The permission bits of the items in the archive. Those of the items may have lost bits to the umask of the project.
   */
  archiveModes: ReadonlyArray<number | null>
}

/** Writes the manifest of staged items. It does not contain directories. */
export function writeManifest(
  to: ManifestFile,
  { disk, items, records, archiveModes }: Staged
): Manifest & { treeSha256: string } {
  const changes: Manifest['changes'] = []
  const utf8 = new TextEncoder()
  let changedCount = 0
  let fileCount = 0
  const order = items.flatMap((item, index) => (item.kind === 'directory' ? [] : [index]))
  const compare = treeOrder(items.map(({ path }) => path))
  order.sort((a, b) => compare((items[a] as Item).path, (items[b] as Item).path))
  const tree = createTreeDigest()
  to.fill(fd => {
    // A single buffer is used for all batches: garbage that is not collected yet would count as memory use, too.
    const batch = Buffer.allocUnsafeSlow(batchBytes)
    let batchLength = 0
    let changed: string[] = []
    const flush = (): void => {
      writeFully(disk, fd, batch.subarray(0, batchLength))
      changes.push(utf8.encode(changed.join('')) as Uint8Array<ArrayBuffer>)
      changed = []
      batchLength = 0
    }
    for (const index of order) {
      const item = items[index] as Item
      const file = describe(item, index, records)
      const mode = item.kind === 'symlink' ? linkMode : modeInTree(archiveModes[index] ?? null)
      tree.add({ path: file.path, mode, size: file.size, sha256: file.sha256 })
      const line = `${JSON.stringify(file)}\n`
      fileCount++
      if (isChanged(file)) {
        changedCount++
        changed.push(`${file.path}\n`)
      }
      if (batchLength + line.length * maxUnitBytes > batchBytes) flush()
      batchLength += batch.write(line, batchLength)
    }
    flush()
  })
  return { fileCount, changedCount, changes, treeSha256: tree.end() }
}

function modeInTree(mode: number | null): number {
  return mode === null ? defaultFileMode : fileType | mode
}

function describe(item: Item, index: number, records: Records): Line {
  const before = records.before(index)
  return {
    path: item.path,
    size: item.size,
    mode: records.mode(index),
    sha256: records.sha256(index).toString('hex'),
    mtimeMs: records.mtimeMs(index),
    ino: records.ino(index),
    before: before === null ? null : describeBefore(before, records.timeBeforeMs(index))
  }
}

function describeBefore({ size, mode, sha256 }: Digest, mtimeMs: number): NonNullable<Line['before']> {
  return { size, mode, sha256: Buffer.from(sha256).toString('hex'), mtimeMs }
}

const typeBits = 0o170000

function isChanged({ before, mode, sha256 }: Line): boolean {
  return before === null || before.sha256 !== sha256 || (before.mode & typeBits) !== (mode & typeBits)
}

/**
 * Yields the files of a manifest, sorted by path. Refuses (`conflict`, torn_manifest) an incomplete manifest;
 * `leastFiles` is the number of files that it must contain at least.
 */
export async function* readManifest(path: string, leastFiles = 0): AsyncGenerator<Line> {
  let files: Line[] = []
  let count = 0
  const lines = createLineSplitter(line => files.push(parseLine(line)))
  for await (const chunk of createReadStream(path)) {
    lines.push(chunk as Buffer)
    count += files.length
    yield* files
    files = []
  }
  lines.end()
  if (count + files.length < leastFiles) throw torn()
  yield* files
}

/** Returns the result of `writeManifest` for a manifest on disk, and the total size of its files in bytes. */
export async function summarizeManifest(path: string): Promise<Manifest & { bytes: number }> {
  const changed: string[] = []
  let [fileCount, bytes] = [0, 0]
  for await (const file of readManifest(path)) {
    fileCount++
    bytes += file.size
    if (isChanged(file)) changed.push(`${file.path}\n`)
  }
  const changes = [new TextEncoder().encode(changed.join('')) as Uint8Array<ArrayBuffer>]
  return { fileCount, changedCount: changed.length, changes, bytes }
}

/** Returns the files of a manifest by their paths. `text` is its contents. */
export function parseManifest(text: string): Map<string, Pick<Line, 'size' | 'sha256'>> {
  const files = new Map<string, Pick<Line, 'size' | 'sha256'>>()
  for (const line of text.split('\n')) {
    if (line === '') continue
    const { path, ...file } = parseLine(line)
    files.set(path, file)
  }
  return files
}

function parseLine(line: string): Line {
  let file: Partial<Line> | null
  try {
    file = JSON.parse(line) as Partial<Line> | null
  } catch (error) {
    throw torn(error)
  }
  if (typeof file?.path !== 'string' || typeof file.sha256 !== 'string') throw torn()
  return file as Line
}

function torn(cause?: unknown): Refusal {
  return new Refusal(
    'conflict',
    'torn_manifest',
    'The file list of this deployment is incomplete: a power cut damaged it, or it was changed. Deploy again',
    { cause }
  )
}

/** Returns the differences between two manifests, each sorted by path. Compares contents, kind and mode. */
export async function compareManifests(then: AsyncIterable<Line>, now: AsyncIterable<Line>): Promise<Changes> {
  const old = new Map<string, string>()
  for await (const file of then) old.set(file.path, `${file.sha256} ${file.mode}`)
  const changes: Changes = { added: [], changed: [], removed: [] }
  for await (const file of now) {
    const was = old.get(file.path)
    if (was === undefined) changes.added.push(file.path)
    else if (was !== `${file.sha256} ${file.mode}`) changes.changed.push(file.path)
    old.delete(file.path)
  }
  changes.removed.push(...old.keys())
  return changes
}
