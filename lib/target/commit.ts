/*
 * Staging becomes the target, by renames alone.
 *
 * A directory that the target does not have is moved with all that is in it, in one call; so is every new file. A file
 * that replaces another is moved over it, after a hard link `aside/<n>` keeps the old one: at no moment is the name
 * absent or the file half-written, and a program that has the old one open keeps it. New things come first, so that a
 * page is replaced when the assets it names are already there. Last, files that are there already get their time.
 *
 * The list of all this is in the undo journal, on the disk, before the first rename (undo.ts). Each step looks once
 * more whether the target is still what was planned with, because a running application may have changed it.
 */
import { Refusal } from '../base/refusal.js'
import { syncDirectory, type Disk } from './disk.js'
import { holdBelow, type HeldDirectory } from './guard.js'
import type { Folder, Item, Plan } from './plan.js'
import type { Records } from './record.js'
import type { Journal, JournalLine, TimeLine } from './undo.js'

export interface CommitNeeds {
  disk: Disk
  root: HeldDirectory
  staging: string
  items: readonly Item[]
  plan: Plan
  records: Records
  journal: Journal
  /** Throws when the commit is to be given up. */
  check(): void
}

/** Moves everything into place; when it throws, the journal says what to undo. */
export function commit(needs: CommitNeeds): void {
  const { disk, root, journal } = needs
  const lines = listMoves(needs)
  if (lines.length === 0) return
  journal.ready(lines)
  move(needs, lines)
  syncDirectory(disk, root.path)
  journal.done()
}

/** Everything that will be done, in the order in which it is done: new directories, new files, replaced ones, times. */
function listMoves({ items, plan, records }: CommitNeeds): JournalLine[] {
  const trees = new Map<Folder, JournalLine[]>()
  for (const folder of plan.folders) {
    if (folder.exists) continue
    const top = topOf(folder)
    if (top === folder) trees.set(folder, [{ kind: 'D', path: folder.path }])
    else trees.get(top)?.push({ kind: 'd', path: folder.path })
  }
  // By folder, so that each is held once, however the archive mixes them.
  const added = new Map<Folder, JournalLine[]>()
  const replaced = new Map<Folder, JournalLine[]>()
  const dated = new Map<Folder, JournalLine[]>()
  items.forEach(({ kind, path, mtimeMs }, index) => {
    const folder = plan.folderOf[index] as Folder
    if (kind === 'directory') return
    if (records.outcome(index) === 'other_time') {
      addTo(dated, folder, { kind: 'T', path, fromMs: records.timeBeforeMs(index), toMs: mtimeMs as number })
    }
    if (records.outcome(index) !== 'staged') return
    if (!folder.exists) trees.get(topOf(folder))?.push({ kind: 'n', path })
    else if (records.existing(index) === 'none') addTo(added, folder, { kind: 'N', path })
    else addTo(replaced, folder, { kind: 'R', path, aside: index })
  })
  return [trees, added, replaced, dated].flatMap(lines => [...lines.values()].flat())
}

function addTo(lines: Map<Folder, JournalLine[]>, folder: Folder, line: JournalLine): void {
  const there = lines.get(folder)
  if (there === undefined) lines.set(folder, [line])
  else there.push(line)
}

/** The uppermost new directory that a new one lies in, or itself. */
function topOf(folder: Folder): Folder {
  let top = folder
  while (top.parent !== null && !top.parent.exists) top = top.parent
  return top
}

function move({ disk, root, staging, check }: CommitNeeds, lines: readonly JournalLine[]): void {
  let held: HeldDirectory | null = null
  let heldPath = ''
  try {
    for (const line of lines) {
      if (line.kind === 'd' || line.kind === 'n') continue
      check()
      const slash = line.path.lastIndexOf('/')
      const folderPath = line.path.slice(0, Math.max(0, slash))
      if (held === null || heldPath !== folderPath) {
        held?.close()
        held = null
        held = holdBelow(disk, root, folderPath)
        heldPath = folderPath
      }
      const staged = `${staging}/files/${line.path}`
      const place = `${held.path}/${line.path.slice(slash + 1)}`
      if (line.kind === 'R') replace(disk, staged, place, `${staging}/aside/${line.aside}`, line.path)
      else if (line.kind === 'T') setTime(disk, place, line)
      else add(disk, staged, place, line.path)
    }
  } finally {
    held?.close()
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
  const stats = disk.lstatSync(place, { throwIfNoEntry: false })
  if (stats === undefined) throw changedMeanwhile(path, 'was removed')
  if (!stats.isFile() || stats.mtimeMs !== fromMs) throw changedMeanwhile(path, 'was changed')
  disk.lutimesSync(place, stats.atimeMs / 1000, toMs / 1000)
}

function changedMeanwhile(path: string, how: string): Refusal {
  return new Refusal('conflict', 'target_changed',
    `The target was put back: "${path}" ${how} while the archive was being extracted; try again`)
}
