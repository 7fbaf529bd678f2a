/*
 * `deployments/<id>.manifest`: what a deployment put in place, one line of JSON for each file (model/manifest.ts),
 * ordered by path. It is whole or absent, after a power cut too: written beside its name, synced, then renamed, and the
 * name is synced. A manifest of an earlier version may be torn, because it was not synced.
 */
import { createReadStream } from 'node:fs'
import { dirname, join } from 'node:path'
import { createLineSplitter } from '../base/lines.js'
import { Refusal } from '../base/refusal.js'
import type { Changes, ManifestFile as Line } from '../model/manifest.js'
import { syncDirectory, writeFully, type Disk } from './disk.js'
import { deployIdOf } from './journal-file.js'
import type { Item } from './plan.js'
import type { Records } from './record.js'
import type { Recovery } from './undo.js'

/** Text that is gathered before it is written; a line has 20 KiB at most. */
const batchBytes = 256 * 1024
/** In UTF-8, of one unit of a string. */
const maxUnitBytes = 3

export interface Manifest {
  /** Files and symbolic links. */
  fileCount: number
  /** How many of them are new or differ, by content, from what was there. */
  changedCount: number
  /** Their paths, one a line, ordered: pieces of text as bytes, which pass to another thread for nothing. */
  changes: Array<Uint8Array<ArrayBuffer>>
}

/** Where a manifest is written. */
export interface ManifestFile {
  /** Calls `write` with the open file; its contents, and its name, are on the disk when this returns. */
  fill(write: (fd: number) => void): void
  /** Removes what was written. */
  remove(): void
}

/** The manifest at a path. */
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

/** Where a manifest is written before it has its name. */
export function unnamedManifest(path: string): string {
  return `${path}.tmp`
}

/** Gives a manifest that is written and synced its name; the name is on the disk when this returns. */
export function nameManifest(disk: Disk, path: string): void {
  disk.renameSync(unnamedManifest(path), path)
  syncDirectory(disk, dirname(path))
}

/** The manifest of a helper process (journal-file.ts), opened by svc, which also names and removes it. */
export function openedManifest(disk: Disk, fd: number): ManifestFile {
  return {
    fill(write) {
      write(fd)
      disk.fdatasyncSync(fd)
    },
    remove: () => {}
  }
}

/** Names the manifest of an interrupted extraction that turned out to be complete; removes the one of an undone extraction. */
export function settleManifest(disk: Disk, journalPath: string, recovery: Recovery): void {
  const path = join(dirname(journalPath), `${deployIdOf(journalPath)}.manifest`)
  const isUnnamed = disk.lstatSync(unnamedManifest(path), { throwIfNoEntry: false }) !== undefined
  if (recovery === 'complete' && isUnnamed) nameManifest(disk, path)
  if (recovery === 'put back' || recovery === 'untouched') manifestAt(disk, path).remove()
}

/** Writes the manifest of staged items; directories are not in it. */
export function writeManifest(disk: Disk, to: ManifestFile, items: readonly Item[], records: Records): Manifest {
  const changes: Manifest['changes'] = []
  const utf8 = new TextEncoder()
  let changedCount = 0
  let fileCount = 0
  const order = items.flatMap((item, index) => item.kind === 'directory' ? [] : [index])
  order.sort((a, b) => compareText((items[a] as Item).path, (items[b] as Item).path))
  to.fill(fd => {
    // One piece of memory for all of it: what waits for the collector counts, too.
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
      const file = describe(items[index] as Item, index, records)
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
  return { fileCount, changedCount, changes }
}

function describe(item: Item, index: number, records: Records): Line {
  const before = records.before(index)
  return {
    path: item.path,
    size: item.size,
    mode: records.mode(index),
    sha256: records.sha256(index).toString('hex'),
    before: before === null
      ? null
      : { size: before.size, mode: before.mode, sha256: Buffer.from(before.sha256).toString('hex') }
  }
}

const typeBits = 0o170000

function isChanged({ before, mode, sha256 }: Line): boolean {
  return before === null || before.sha256 !== sha256 || (before.mode & typeBits) !== (mode & typeBits)
}

function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}

/**
 * The files of a manifest, one by one, in order of their paths. Refuses (`conflict`, torn_manifest) one that is not
 * whole; `leastFiles` is how many it must have.
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

/** What writeManifest gave of a manifest that is on the disk, and the sizes of its files together. */
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
  return new Refusal('conflict', 'torn_manifest',
    'The list of files of this deployment is not whole: a power cut tore it, or it was changed. Deploy again for a new one', { cause })
}

/** What `now` has against `then`: two manifests, each in order of its paths. Contents, kind and mode count. */
export async function compareManifests(
  then: AsyncIterable<Line>, now: AsyncIterable<Line>
): Promise<Changes> {
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
