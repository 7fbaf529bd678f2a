/*
 * Putting a target back, line by line of its undo journal (undo.ts), last first.
 *
 * Each line says what was to be done; whether it was, the disk itself says, so that putting back may end at any call and
 * be begun again. Of a replaced file (`R`):
 *
 *   aside   staged   place         what has happened                          what is done
 *   -       any      any           not begun, or put back already             nothing
 *   old     new      old           the old file was linked aside, no more     nothing
 *   old     new      -             hard links are refused: it was renamed     aside → place
 *   old     -        new           it was replaced                            place ⇒ kept, aside → place
 *   old     -        new, kept     … and putting it back was cut short        aside → place
 *
 * `⇒` is a hard link, `aside/<n>.new`, which goes with the staging directory. It is there for speed alone: a rename that
 * ends the file in its way waits until the kernel has written that file's contents, which the commit has just told it to
 * (ext4: 0.6 ms for each file). With another name the file does not end. So where the link cannot be made (FAT, a full
 * disk) the rename does without. It must not be `files/<path>`: that would look like a file not yet moved.
 * measured: bench/extract
 */
import type { Stats } from 'node:fs'
import { Refusal } from '../base/refusal.js'
import type { Disk } from './disk.js'
import { holdFolders } from './folders.js'
import type { HeldDirectory } from './held.js'
import { changeTime } from './regular.js'
import { sameTimeMs } from './stage.js'
import type { JournalLine } from './undo.js'

/** Undoes the lines of a journal that is `ready`; `staging` is how to name the staging directory in calls. */
export function putBack(disk: Disk, root: HeldDirectory, staging: string, lines: readonly JournalLine[]): void {
  const aside = listAside(disk, staging)
  const folders = holdFolders(disk, root)
  try {
    undoIn({
      disk,
      staging,
      aside,
      within(path, use) {
        const place = placeOf(() => folders.place(path))
        if (place !== null) use(place)
      }
    }, lines)
  } finally {
    folders.close()
  }
}

/** What lies aside: one list, not a look for each line. measured: bench/extract */
function listAside(disk: Disk, staging: string): Set<string> {
  try {
    return new Set(disk.readdirSync(`${staging}/aside`))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return new Set()
    throw error
  }
}

/** Null: the folder is gone, or a link or a file has its name by now, so there is nothing of ours to put back. */
function placeOf(find: () => string): string | null {
  try {
    return find()
  } catch (error) {
    if (error instanceof Refusal) return null
    throw error
  }
}

interface UndoNeeds {
  disk: Disk
  staging: string
  /** The names in the directory `aside`. */
  aside: ReadonlySet<string>
  /** Calls `use` with the place of a path in the target, if its folder is there. */
  within(path: string, use: (place: string) => void): void
}

function undoIn({ disk, staging, aside, within }: UndoNeeds, lines: readonly JournalLine[]): void {
  const find = (place: string): Stats | undefined => disk.lstatSync(place, { throwIfNoEntry: false })
  let tree: JournalLine[] = []
  for (let i = lines.length - 1; i >= 0; i--) {
    const line = lines[i] as JournalLine
    const staged = `${staging}/files/${line.path}`
    if (line.kind === 'n' || line.kind === 'd') {
      tree.push(line)
    } else if (line.kind === 'D') {
      if (find(staged) === undefined) {
        for (const each of [...tree, line]) within(each.path, place => removeNew(disk, place, each))
      }
      tree = []
    } else if (line.kind === 'R') {
      if (!aside.has(String(line.aside))) continue
      const old = `${staging}/aside/${line.aside}`
      within(line.path, place => {
        const isReplaced = find(staged) === undefined
        if (!isReplaced && find(place) !== undefined) return
        if (isReplaced) keep(disk, place, `${old}.new`)
        moveIfThere(disk, old, place)
      })
    } else if (line.kind === 'T') {
      const { fromMs, toMs } = line
      const hasGotIt = ({ mtimeMs }: Stats): boolean => Math.abs(mtimeMs - toMs) < sameTimeMs
      within(line.path, place => void changeTime(disk, place, fromMs, hasGotIt))
    } else if (find(staged) === undefined) {
      within(line.path, place => {
        // A directory is not what was put there.
        if (find(place)?.isDirectory() === false) moveIfThere(disk, place, staged)
      })
    }
  }
}

/** Gives a file another name, if it can have one. */
function keep(disk: Disk, place: string, name: string): void {
  try {
    disk.linkSync(place, name)
  } catch {
    // Slower.
  }
}

/** What stands in the way of moving a file back is not svc's: somebody has made a directory there since. */
const notMovable = new Set(['ENOENT', 'EISDIR'])

function moveIfThere(disk: Disk, from: string, to: string): void {
  try {
    disk.renameSync(from, to)
  } catch (error) {
    if (!notMovable.has((error as NodeJS.ErrnoException).code ?? '')) throw error
  }
}

const notRemovable = new Set(['ENOENT', 'ENOTEMPTY', 'EEXIST', 'ENOTDIR', 'EISDIR'])

/**
 * Removes an entry of a new directory, or at last the directory itself. What somebody else has put there since stays,
 * and so do the directories around it.
 */
function removeNew(disk: Disk, place: string, { kind }: JournalLine): void {
  try {
    if (kind === 'n') disk.unlinkSync(place)
    else disk.rmdirSync(place)
  } catch (error) {
    if (!notRemovable.has((error as NodeJS.ErrnoException).code ?? '')) throw error
  }
}
