/*
 * `deployments/<id>.manifest`: what a deployment put in place, one line of JSON for each file (model/manifest.ts),
 * ordered by path. It is whole or absent: written beside its name, then renamed.
 */
import { createReadStream } from 'node:fs'
import { createLineSplitter } from '../base/lines.js'
import type { Changes, ManifestFile as Line } from '../model/manifest.js'
import { writeFully, type Disk } from './disk.js'
import type { Item } from './plan.js'
import type { Records } from './record.js'

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
  /** Calls `write` with the open file, which has its name when this returns. */
  fill(write: (fd: number) => void): void
  /** Removes what was written. */
  remove(): void
}

/** The manifest at a path. */
export function manifestAt(disk: Disk, path: string): ManifestFile {
  const beside = `${path}.tmp`
  return {
    fill(write) {
      const fd = disk.openSync(beside, 'w', 0o600)
      try {
        write(fd)
      } finally {
        disk.closeSync(fd)
      }
      disk.renameSync(beside, path)
    },
    remove() {
      for (const each of [path, beside]) {
        if (disk.lstatSync(each, { throwIfNoEntry: false }) !== undefined) disk.unlinkSync(each)
      }
    }
  }
}

/** The manifest of a helper process (journal-file.ts), opened by svc, which also names and removes it. */
export function openedManifest(fd: number): ManifestFile {
  return { fill: write => write(fd), remove: () => {} }
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

/** The files of a manifest, one by one, in order of their paths. */
export async function* readManifest(path: string): AsyncGenerator<Line> {
  let files: Line[] = []
  const lines = createLineSplitter(line => files.push(JSON.parse(line) as Line))
  for await (const chunk of createReadStream(path)) {
    lines.push(chunk as Buffer)
    yield* files
    files = []
  }
  lines.end()
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
