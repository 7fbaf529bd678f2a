/*
 * Moves the staged files into the target, by renames alone.
 *
 * A directory that the target does not have is moved with all its contents in one call. Each new file is moved in one
 * call too. A file that replaces another is moved over it, after a hard link `aside/<n>` has been made to the old file.
 * So the name is never absent, the file is never half-written, and a program that has the old file open keeps it. New
 * entries come first, so that a page is replaced only when the assets that it refers to are in place. Then come existing
 * files that only need a new time. Files to be removed come last: they are moved to `aside/<n>`, so that nothing that a
 * new page needs is missing while both exist. Directories that became empty are removed after them, children first.
 *
 * What gives way to another type of entry (kept-owner.ts) is removed before everything else: there is a moment in which
 * neither is there.
 *
 * The list of these moves is in the undo journal, synced to disk, before the first rename (undo.ts). File contents are
 * synced before that. Names are synced before the journal says that everything is done (durable.ts). Each step checks
 * again that the target is still as planned, because a running application may have changed it.
 */
import type { Stats } from 'node:fs'
import { parentOf } from '../../base/files.js'
import { changeTime, type Disk } from './disk.js'
import type { StagedFile, TargetSync } from './durable.js'
import { changedMeanwhile, type HeldDirectory, holdFolders } from './held.js'
import { type KeptOwner, keptOwnerOf, otherGroup } from './kept-owner.js'
import type { Folder, Item, Plan, Records } from './plan.js'
import type { PutBackNeeds } from './put-back.js'
import type { RemovedDirectory, RemovedFile } from './removal.js'
import type { Journal, JournalLine, RemoveLine, TimeLine } from './journal.js'

/** Everything that a commit works with. */
export interface CommitNeeds {
  disk: Disk
  root: HeldDirectory
  /** The path of the staging directory in calls (held.ts). */
  staging: string
  items: readonly Item[]
  plan: Plan
  records: Records
  /** What is removed; the directories children first. */
  removed: readonly RemovedFile[]
  directories: readonly RemovedDirectory[]
  journal: Journal
  sync: TargetSync
  /** Whether the deployment may still be put back after everything is in place. */
  staysOpen: boolean
  /** Throws if the commit must be abandoned. */
  check(): void
}

/** Moves everything into place. If it rejects, the journal lists what to undo. */
export async function commit(needs: CommitNeeds): Promise<void> {
  const { plan, journal, sync } = needs
  const lines = listMoves(needs)
  if (lines.hasLines)
    await sync.staged(
      stagedFiles(needs),
      plan.folders.filter(folder => !folder.exists).map(folder => folder.path)
    )
  // If there is nothing to move, the target already has the contents of the archive. The journal must say so too.
  await journal.ready(lines, { ...foldersOf(needs, lines), owners: ownersOf(needs, lines) })
  if (lines.hasLines) {
    move(needs, lines)
    await sync.moved(changedDirectories(lines))
  }
  if (needs.staysOpen) await journal.placed()
  else await journal.done()
}

/**
 * Returns the permission bits of the folders that contain what is replaced or removed, and of those above them; and the
 * groups of these and of removed directories.
 */
function foldersOf(
  { disk, root }: CommitNeeds,
  lines: Iterable<JournalLine>
): Required<Pick<PutBackNeeds, 'modes' | 'groups'>> {
  const [modes, groups] = [new Map<string, number>(), new Map<string, number>()]
  const find = (folder: string): Stats | null => {
    const stats = disk.lstatSync(`${root.path}/${folder}`, { throwIfNoEntry: false })
    if (!stats?.isDirectory()) return null
    const { gid } = otherGroup(stats)
    if (gid !== undefined) groups.set(folder, gid)
    return stats
  }
  for (const { kind, path } of lines) {
    if (kind === 'x') find(path)
    if (kind !== 'R' && kind !== 'X') continue
    for (let folder = parentOf(path); folder !== '' && !modes.has(folder); folder = parentOf(folder)) {
      const stats = find(folder)
      if (stats !== null) modes.set(folder, stats.mode & 0o7777)
    }
  }
  return { modes, groups }
}

/** Returns owner and permissions of what is kept aside while scripts run. */
function ownersOf({ disk, root, staysOpen }: CommitNeeds, lines: Iterable<JournalLine>): Map<number, KeptOwner> {
  const owners = new Map<number, KeptOwner>()
  if (!staysOpen) return owners
  for (const line of lines) {
    if (line.kind !== 'R' && line.kind !== 'X') continue
    const stats = disk.lstatSync(`${root.path}/${line.path}`, { throwIfNoEntry: false })
    if (stats !== undefined) owners.set(line.aside, keptOwnerOf(stats))
  }
  return owners
}

function stagedFiles({ items, records }: CommitNeeds): StagedFile[] {
  return items.flatMap(({ path, kind }, index) =>
    kind === 'file' && records.outcome(index) === 'staged' ? [{ path, mode: records.mode(index) & 0o7777 }] : []
  )
}

/**
 * Returns the directories of the target in which the lines move something; the directory that is changed last comes
 * last.
 */
function changedDirectories(lines: Iterable<JournalLine>): string[] {
  const paths = new Set<string>()
  for (const { kind, path } of lines) {
    if (!renaming.has(kind)) continue
    const parent = parentOf(path)
    paths.delete(parent)
    paths.add(parent)
    // A removed directory cannot be synced; the one that contained it can.
    if (kind === 'x') paths.delete(path)
  }
  return [...paths]
}

/** The kinds of lines that change names in a directory. */
const renaming: ReadonlySet<JournalLine['kind']> = new Set(['D', 'N', 'R', 'X', 'x'] as const)

/**
 * Lists everything that the commit does, in order: new directories, new files, replaced files, times. The lines are
 * generated on demand: for 200,000 items, only the item numbers are kept in memory.
 */
function listMoves({
  items,
  plan,
  records,
  removed,
  directories
}: CommitNeeds): Iterable<JournalLine> & { hasLines: boolean } {
  // Grouped by folder, so that each folder is held once, whatever the order of the archive.
  const trees = new Map<Folder, { folders: Folder[]; items: number[] }>()
  const [added, replaced, dated] = [
    new Map<Folder, number[]>(),
    new Map<Folder, number[]>(),
    new Map<Folder, number[]>()
  ]
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
    hasLines: trees.size + added.size + replaced.size + dated.size + removed.length + directories.length > 0,
    *[Symbol.iterator]() {
      yield* removals(true)
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
      yield* removals(false)
    }
  }

  function* removals(areFirst: boolean): Generator<JournalLine> {
    // Numbers that no item has.
    for (const [at, { path, givesWay = false }] of removed.entries())
      if (givesWay === areFirst) yield { kind: 'X', path, aside: items.length + at }
    for (const { path, mode, givesWay = false } of directories)
      if (givesWay === areFirst) yield { kind: 'x', path, mode: mode & 0o7777 }
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

/** Returns the topmost new directory that contains `folder`, or `folder` itself. */
function topOf(folder: Folder): Folder {
  let top = folder
  while (top.parent !== null && !top.parent.exists) top = top.parent
  return top
}

function move({ disk, root, staging, items, removed, check }: CommitNeeds, lines: Iterable<JournalLine>): void {
  // The folders are held again: those that staging held may have been exchanged since.
  const folders = holdFolders(disk, root)
  try {
    for (const line of lines) {
      if (line.kind === 'd' || line.kind === 'n') continue
      check()
      try {
        moveOne(line)
      } catch (error) {
        throw named(error, line.path)
      }
    }
  } finally {
    folders.close()
  }

  function moveOne(line: Exclude<JournalLine, { kind: 'd' | 'n' }>): void {
    const place = folders.place(line.path)
    if (line.kind === 'T') return setTime(disk, place, line)
    if (line.kind === 'X') {
      const expected = removed[line.aside - items.length] as RemovedFile
      return remove(disk, { line, place, aside: `${staging}/aside/${line.aside}`, expected })
    }
    if (line.kind === 'x') return removeDirectory(disk, line.path, place)
    const moved = { path: line.path, staged: `${staging}/files/${line.path}`, place }
    if (line.kind === 'R') replace(disk, moved, `${staging}/aside/${line.aside}`)
    else add(disk, moved)
  }
}

/** Names the entry of the target in the error of a system call: its own paths are those of calls (held.ts), or absent. */
function named(error: unknown, path: string): unknown {
  if (error instanceof Error && 'syscall' in error) error.message = `${error.message.replace(/ '.*$/s, '')} "${path}"`
  return error
}

interface Moved {
  /** Path in the target. */
  path: string
  /** Paths of the file in calls, before and after the move. */
  staged: string
  place: string
}

function add(disk: Disk, { path, staged, place }: Moved): void {
  if (disk.lstatSync(place, { throwIfNoEntry: false }) !== undefined) throw changedMeanwhile(path, 'was made')
  disk.renameSync(staged, place)
}

const noHardLinks = new Set(['EPERM', 'EACCES', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK'])

function replace(disk: Disk, { path, staged, place }: Moved, aside: string): void {
  try {
    disk.linkSync(place, aside)
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? ''
    if (code === 'ENOENT') throw changedMeanwhile(path, 'was removed')
    if (!noHardLinks.has(code)) throw error
    // Linux also returns EPERM for a directory. A directory does not belong to svc and must not be moved.
    if (disk.lstatSync(place).isDirectory()) throw changedMeanwhile(path, 'became a directory')
    // FAT, some network file systems, fs.protected_hardlinks: the name is absent between two renames.
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
  if (changeTime(disk, place, { toMs, isExpected: stats => stats.mtimeMs === fromMs })) return
  throw changedMeanwhile(path, 'was changed or removed')
}

interface Removing {
  line: RemoveLine
  /** Paths of the file in calls, before and after the move. */
  place: string
  aside: string
  /** What staging found there. */
  expected: RemovedFile
}

/** Moves a file away that is still the one that was read. */
function remove(disk: Disk, { line, place, aside, expected }: Removing): void {
  try {
    disk.renameSync(place, aside)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') throw changedMeanwhile(line.path, 'was removed')
    throw error
  }
  const { ino, mtimeMs, size } = disk.lstatSync(aside)
  const { before } = expected
  if (ino === expected.ino && mtimeMs === before.mtimeMs && size === before.size) return
  disk.renameSync(aside, place)
  throw changedMeanwhile(line.path, 'was changed')
}

const notEmpty = new Set(['ENOTEMPTY', 'EEXIST', 'ENOENT', 'ENOTDIR'])

function removeDirectory(disk: Disk, path: string, place: string): void {
  try {
    disk.rmdirSync(place)
  } catch (error) {
    if (notEmpty.has((error as NodeJS.ErrnoException).code ?? '')) throw changedMeanwhile(path, 'was changed')
    throw error
  }
}
