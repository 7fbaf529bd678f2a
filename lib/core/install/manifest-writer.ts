/* Writes the manifest of an extraction (manifest.ts). */
import {
  createTreeDigest,
  type EarlierFile,
  type FileOwner,
  type ManifestFile as FileLine,
  type ManifestLine,
  pathOfLine
} from '../../model/manifest.js'
import { Refusal } from '../../base/errors.js'
import { packedMode, type TreeEntry, treeOrder } from '../../base/shared/tree-text.js'
import { type Disk, writeFully } from './disk.js'
import {
  changeOf,
  formatLine,
  hasOtherMode,
  isChanged,
  isRemovedFile,
  type Manifest,
  type ManifestFile
} from './manifest.js'
import type { Digest, Item, Plan, Records } from './plan.js'
import type { Reckoned } from './reckon.js'
import { earlierDirectory } from './removal.js'

/** Bytes that are collected before a write; a line has at most 20 KiB. */
const batchBytes = 256 * 1024
/** Maximum size in UTF-8 of one code unit of a string. */
const maxUnitBytes = 3

/** The items of an extraction and the records about them. */
export interface Staged {
  disk: Disk
  items: readonly Item[]
  /** The items in canonical order (`canonicalOrder`). */
  order: readonly number[]
  records: Records
  /**
   * The permission bits of the items in the archive. Those of the items may have lost bits to the umask of the project.
   */
  archiveModes: ReadonlyArray<number | null>
  plan: Pick<Plan, 'folders'>
  reckoned: Pick<Reckoned, 'keptOf' | 'removed' | 'gone' | 'directories' | 'gaveWay'>
}

/** Returns the indexes of all items except directories, in the order of `compareTreePaths`. */
export function canonicalOrder(items: readonly Item[]): number[] {
  const order = items.flatMap((item, index) => (item.kind === 'directory' ? [] : [index]))
  const compare = treeOrder(items.map(({ path }) => path))
  return order.sort((a, b) => compare((items[a] as Item).path, (items[b] as Item).path))
}

/** Writes the manifest of staged items. An item that is left as it is (`kept`) is not in it. */
export async function writeManifest(to: ManifestFile, staged: Staged): Promise<Manifest & { treeSha256: string }> {
  const { disk, items, records } = staged
  const changes: Manifest['changes'] = []
  const utf8 = new TextEncoder()
  let [changedCount, modeCount, fileCount, removedCount] = [0, 0, 0, 0]
  const tree = createTreeDigest()
  await to.fill(fd => {
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
    const write = (line: ManifestLine): void => {
      const text = formatLine(line)
      const change = changeOf(line)
      if (change !== '') changed.push(change)
      if (isRemovedFile(line)) removedCount++
      if (batchLength + text.length * maxUnitBytes > batchBytes) flush()
      batchLength += batch.write(text, batchLength)
    }
    const others = otherLines(staged)
    let next = 0
    const compare = treeOrder([...items.map(({ path }) => path), ...others.map(pathOfLine)])
    for (const index of staged.order) {
      const item = items[index] as Item
      while (next < others.length && compare(pathOfLine(others[next] as ManifestLine), item.path) < 0) {
        write(others[next++] as ManifestLine)
      }
      if (records.outcome(index) === 'kept') continue
      const file = describe(index, staged)
      tree.add(entryInTree(index, staged))
      fileCount++
      if (isChanged(file)) changedCount++
      else if (hasOtherMode(file)) modeCount++
      write(file)
    }
    for (const line of others.slice(next)) write(line)
    flush()
  })
  return { fileCount, changedCount, modeCount, removedCount, changes, treeSha256: tree.end() }
}

/**
 * Refuses (`conflict`, stated_tree_differs) an archive that does not have the tree that its client stated. Must be called before
 * anything is renamed.
 */
export function refuseOtherTree(treeSha256: string, staged: InTree): void {
  if (treeOfItems(staged) !== treeSha256) throw treeDiffers()
}

/** What the tree of an archive depends on. */
type InTree = Pick<Staged, 'items' | 'order' | 'records' | 'archiveModes'>

/** Returns the SHA-256 of the tree of all items. */
export function treeOfItems(staged: InTree): string {
  const tree = createTreeDigest()
  for (const index of staged.order) tree.add(entryInTree(index, staged))
  return tree.end()
}

/** Returns the refusal of an archive that is not the tree that its client stated. */
export function treeDiffers(): Refusal {
  const sentence = 'Nothing was changed: the archive does not contain the files that the client stated. Push again'
  return new Refusal('conflict', 'stated_tree_differs', sentence)
}

function entryInTree(index: number, { items, records, archiveModes }: Omit<InTree, 'order'>): TreeEntry {
  const { path, size, kind } = items[index] as Item
  const mode = packedMode({ kind, mode: archiveModes[index] ?? null })
  return { path, mode, size, sha256: records.sha256(index).toString('hex') }
}

function describe(index: number, { items, records, reckoned }: Staged): FileLine {
  const { path, size, gid, isUsualGroup } = items[index] as Item
  const before = records.before(index)
  return {
    path,
    size,
    mode: records.mode(index),
    sha256: records.sha256(index).toString('hex'),
    mtimeMs: records.mtimeMs(index),
    ino: records.ino(index),
    ...(gid !== undefined && { gid: isUsualGroup ? null : records.gid(index) }),
    before:
      before === null
        ? (reckoned.gaveWay.get(path) ?? null)
        : earlierOf(before, {
            mtimeMs: records.timeBeforeMs(index),
            kept: reckoned.keptOf(index),
            owner: records.ownerBefore(index)
          })
  }
}

function earlierOf(
  { size, mode, sha256 }: Digest,
  { mtimeMs, kept, owner }: { mtimeMs: number; kept: EarlierFile['kept']; owner: FileOwner | null }
): EarlierFile {
  const earlier = { size, mode, sha256: Buffer.from(sha256).toString('hex'), mtimeMs }
  return { ...earlier, ...(kept !== undefined && { kept }), ...(owner !== null && { owner }) }
}

/** Returns the lines about removed entries and new directories, in canonical order. */
function otherLines({ plan, reckoned }: Staged): ManifestLine[] {
  const made = plan.folders
    .filter(({ exists, path }) => !exists && path !== '')
    .map(({ path }) => {
      const before = reckoned.gaveWay.get(path)
      return before === undefined ? { made: path } : { made: path, before }
    })
  const { gone, gaveWay } = reckoned
  // A path that gave way has a line already.
  const removed = reckoned.removed.filter(({ path }) => !gaveWay.has(path))
  const directories = reckoned.directories.filter(({ path }) => !gaveWay.has(path))
  const lines: ManifestLine[] = [
    ...made,
    ...removed.map(({ path, before }) => ({ removed: path, before })),
    ...gone.map(path => ({ removed: path, before: null })),
    ...directories.map(directory => ({ removed: directory.path, before: earlierDirectory(directory) }))
  ]
  const compare = treeOrder(lines.map(pathOfLine))
  return lines.sort((a, b) => compare(pathOfLine(a), pathOfLine(b)))
}
