/*
 * Staging becomes the target, by renames alone.
 *
 * A directory that the target does not have is moved with all that is in it, in one call; so is every new file. A file
 * that replaces another is moved over it, after a hard link `aside/<n>` keeps the old one: at no moment is the name
 * absent or the file half-written, and a program that has the old one open keeps it. New things come first, so that a
 * page is replaced when the assets it names are already there. Last, files that are there already get their time.
 *
 * The list of all this is in the undo journal, on the disk, before the first rename (undo.ts); contents are on the disk
 * before that, and the names before the journal says that all is done (durable.ts). Each step looks once more whether the target is still what was planned with, because a running application may have changed it.
 */
import { parentOf } from '../base/paths.js'
import type { Disk } from './disk.js'
import type { StagedFile, TargetSync } from './durable.js'
import { changedMeanwhile, holdFolders } from './folders.js'
import type { HeldDirectory } from './held.js'
import type { Folder, Item, Plan } from './plan.js'
import type { Records } from './record.js'
import { changeTime } from './regular.js'
import type { Journal, JournalLine, TimeLine } from './undo.js'

export interface CommitNeeds {
  disk: Disk
  root: HeldDirectory
  /** How to name the staging directory in calls. */
  staging: string
  items: readonly Item[]
  plan: Plan
  records: Records
  journal: Journal
  sync: TargetSync
  /** Throws when the commit is to be given up. */
  check(): void
}

/** Moves everything into place; when it rejects, the journal says what to undo. */
export async function commit(needs: CommitNeeds): Promise<void> {
  const { plan, journal, sync } = needs
  const lines = listMoves(needs)
  if (lines.hasLines) await sync.staged(stagedFiles(needs), plan.folders.filter(folder => !folder.exists).map(folder => folder.path))
  // If nothing is to be moved, the target has what the archive has, and the journal says that, too.
  journal.ready(lines)
  if (lines.hasLines) {
    move(needs, lines)
    await sync.moved(changedDirectories(lines))
  }
  journal.done()
}

function stagedFiles({ items, records }: CommitNeeds): StagedFile[] {
  return items.flatMap(({ path, kind }, index) =>
    kind === 'file' && records.outcome(index) === 'staged' ? [{ path, mode: records.mode(index) & 0o7777 }] : [])
}

/** The directories of the target in which the lines moved something, the last one last. */
function changedDirectories(lines: Iterable<JournalLine>): string[] {
  const paths = new Set<string>()
  for (const { kind, path } of lines) {
    if (kind !== 'D' && kind !== 'N' && kind !== 'R') continue
    const parent = parentOf(path)
    paths.delete(parent)
    paths.add(parent)
  }
  return [...paths]
}

/**
 * Everything that will be done, in the order in which it is done: new directories, new files, replaced ones, times. The
 * lines are made as they are asked for: of 200,000 only the numbers of their items are kept.
 */
function listMoves({ items, plan, records }: CommitNeeds): Iterable<JournalLine> & { hasLines: boolean } {
  // By folder, so that each is held once, however the archive mixes them.
  const trees = new Map<Folder, { folders: Folder[]; items: number[] }>()
  const [added, replaced, dated] = [new Map<Folder, number[]>(), new Map<Folder, number[]>(), new Map<Folder, number[]>()]
  for (const folder of plan.folders) {
    if (folder.exists) continue
    const top = topOf(folder)
    if (top === folder) trees.set(folder, { folders: [], items: [] })
    else trees.get(top)?.folders.push(folder)
  }
  items.forEach(({ kind }, index) => {
    const folder = plan.folderOf[index] as Folder
    const outcome = kind === 'directory' ? 'unchanged' : records.outcome(index)
    if (outcome === 'other_time') addTo(dated, folder, index)
    if (outcome !== 'staged') return
    if (!folder.exists) trees.get(topOf(folder))?.items.push(index)
    else addTo(records.existing(index) === 'none' ? added : replaced, folder, index)
  })
  const pathOf = (index: number): string => (items[index] as Item).path
  return {
    hasLines: trees.size + added.size + replaced.size + dated.size > 0,
    *[Symbol.iterator]() {
      for (const [{ path }, tree] of trees) {
        yield { kind: 'D', path }
        for (const folder of tree.folders) yield { kind: 'd', path: folder.path }
        for (const index of tree.items) yield { kind: 'n', path: pathOf(index) }
      }
      for (const index of each(added)) yield { kind: 'N', path: pathOf(index) }
      for (const index of each(replaced)) yield { kind: 'R', path: pathOf(index), aside: index }
      for (const index of each(dated)) {
        const { path, mtimeMs } = items[index] as Item
        yield { kind: 'T', path, fromMs: records.timeBeforeMs(index), toMs: mtimeMs as number }
      }
    }
  }
}

function addTo(indexes: Map<Folder, number[]>, folder: Folder, index: number): void {
  const there = indexes.get(folder)
  if (there === undefined) indexes.set(folder, [index])
  else there.push(index)
}

function* each(indexes: Map<Folder, number[]>): Generator<number> {
  for (const some of indexes.values()) yield* some
}

/** The uppermost new directory that a new one lies in, or itself. */
function topOf(folder: Folder): Folder {
  let top = folder
  while (top.parent !== null && !top.parent.exists) top = top.parent
  return top
}

function move({ disk, root, staging, check }: CommitNeeds, lines: Iterable<JournalLine>): void {
  // Held once more: what staging has held may have been exchanged since.
  const folders = holdFolders(disk, root)
  try {
    for (const line of lines) {
      if (line.kind === 'd' || line.kind === 'n') continue
      check()
      const staged = `${staging}/files/${line.path}`
      const place = folders.place(line.path)
      if (line.kind === 'R') replace(disk, staged, place, `${staging}/aside/${line.aside}`, line.path)
      else if (line.kind === 'T') setTime(disk, place, line)
      else add(disk, staged, place, line.path)
    }
  } finally {
    folders.close()
  }
}

function add(disk: Disk, staged: string, place: string, path: string): void {
  if (disk.lstatSync(place, { throwIfNoEntry: false }) !== undefined) throw changedMeanwhile(path, 'was made')
  disk.renameSync(staged, place)
}

const noHardLinks = new Set(['EPERM', 'EACCES', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK'])

function replace(disk: Disk, staged: string, place: string, aside: string, path: string): void {
  try {
    disk.linkSync(place, aside)
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? ''
    if (code === 'ENOENT') throw changedMeanwhile(path, 'was removed')
    if (!noHardLinks.has(code)) throw error
    // Linux says EPERM of a directory, too, which is not ours to move.
    if (disk.lstatSync(place).isDirectory()) throw changedMeanwhile(path, 'became a directory')
    // FAT, some network file systems, fs.protected_hardlinks: the name is absent for the time of two renames.
    disk.renameSync(place, aside)
    if (disk.lstatSync(aside).isDirectory()) {
      disk.renameSync(aside, place)
      throw changedMeanwhile(path, 'became a directory')
    }
  }
  try {
    disk.renameSync(staged, place)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EISDIR' || code === 'ENOTEMPTY') throw changedMeanwhile(path, 'became a directory')
    throw error
  }
}

function setTime(disk: Disk, place: string, { path, fromMs, toMs }: TimeLine): void {
  if (changeTime(disk, place, toMs, stats => stats.mtimeMs === fromMs)) return
  throw changedMeanwhile(path, 'was changed or removed')
}
