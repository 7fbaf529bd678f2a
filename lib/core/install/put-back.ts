/*
 * Puts a target back, line by line of its undo journal (undo.ts), in reverse order.
 *
 * Each line says what the commit was about to do; the disk itself shows whether it was done. So putting back may stop
 * at any call and be started again. For a replaced file (`R`):
 *
 *   aside   staged   place         meaning                                    action
 *   -       any      any           not started, or already put back           none
 *   old     new      old           the old file was only linked aside         none
 *   old     new      -             no hard links: the old file was renamed    aside → place
 *   old     -        new           the file was replaced                      place ⇒ kept, aside → place
 *   old     -        new, kept     … and putting it back was interrupted      aside → place
 *
 * A removed file (`X`) was moved to `aside/<n>` by one rename, so it is moved back if it is there. Whatever somebody has
 * put in its place since is kept like an edited file. A removed directory (`x`) is made again if it is missing.
 *
 * A folder that somebody has removed or renamed since is made again; what is in the way of a folder or of a file is kept
 * like an edited file. If nothing helps (a mount point is in the way), then the earlier file is kept there, too, and is
 * named: it is not back.
 *
 * `⇒` is a hard link, `aside/<n>.new`, which is removed with the staging directory. It exists for speed alone: a rename
 * that deletes the file at its destination waits until the kernel has written that file's contents, because the commit
 * has just requested that (ext4: 0.6 ms per file). With another name, the file is not deleted. If the link cannot be
 * made (FAT, a full disk), the rename works without it. The link must not be `files/<path>`: that would look like a
 * file that was not moved yet. measured: bench/extract
 */
import type { Stats } from 'node:fs'
import { parentOf } from '../../base/files.js'
import { Refusal } from '../../base/errors.js'
import { changeTime, type Disk, sameTimeMs } from './disk.js'
import { createDisplace, createKeepEarlier, type Displacing } from './before-images.js'
import { type Folders, type HeldDirectory, holdFolders } from './held.js'
import { giveOwnerAt, type KeptOwner, restoreOwner } from './kept-owner.js'
import type { JournalLine } from './journal.js'

/** The directories that are needed to put a target back. */
export interface PutBackNeeds {
  disk: Disk
  root: HeldDirectory
  /** The path of the staging directory in calls (held.ts). */
  staging: string
  /** The permission bits of folders that may have to be made again. */
  modes?: ReadonlyMap<string, number>
  /** Their groups and those of removed directories, if they are not that of the process. */
  groups?: ReadonlyMap<string, number>
  /** Owner and permissions of what is kept aside, by its number. */
  owners?: ReadonlyMap<number, KeptOwner>
  /** Keeps files that were edited since everything was in place; absent if the moves may be incomplete. */
  displacing?: Displacing | undefined
}

/** Undoes the lines of a journal that is `ready`. Returns the paths of files that could not be put back. */
export function putBack(
  { disk, root, staging, modes = new Map(), groups = new Map(), owners = new Map(), displacing }: PutBackNeeds,
  lines: readonly JournalLine[]
): string[] {
  const aside = listAside(disk, staging)
  const folders = holdFolders(disk, root)
  const displace = createDisplace(disk, staging)
  const keepEarlier = createKeepEarlier(disk, staging)
  const notBack: string[] = []
  try {
    undoIn(
      {
        disk,
        staging,
        aside,
        groups,
        owners,
        isPlaced: displacing !== undefined,
        keepEdited: (path, place, how) => displacing?.keep(path, place, how) ?? false,
        displace,
        within(path, use) {
          const place = placeOf(() => folders.place(path))
          if (place !== null) use(place)
        },
        restore(path, from, use) {
          try {
            makeFolders({ disk, folders, modes, groups, displace }, parentOf(path))
            use(folders.place(path))
          } catch (error) {
            if (!isInTheWay(error)) throw error
            if (from === null) return
            keepEarlier(path, from)
            notBack.push(path)
          }
        }
      },
      lines
    )
    return notBack.reverse()
  } finally {
    folders.close()
  }
}

/** Returns the names in `aside`: one listing instead of a lookup for each line. measured: bench/extract */
function listAside(disk: Disk, staging: string): Set<string> {
  try {
    return new Set(disk.readdirSync(`${staging}/aside`))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return new Set()
    throw error
  }
}

/**
 * Returns null if the folder no longer exists, or a link or a file now has its name: then there is nothing of svc's to
 * put back.
 */
function placeOf(find: () => string): string | null {
  try {
    return find()
  } catch (error) {
    if (error instanceof Refusal) return null
    throw error
  }
}

const inTheWay = new Set(['EBUSY', 'EISDIR', 'ENOTDIR', 'ENOTEMPTY', 'EEXIST', 'EXDEV', 'ENAMETOOLONG'])

/** Whether an entry of somebody else is in the way. Any other error may be over at the next attempt. */
function isInTheWay(error: unknown): boolean {
  return error instanceof Refusal || inTheWay.has((error as NodeJS.ErrnoException).code ?? '')
}

/** Mode of a folder of which the journal does not say it. */
const usualMode = 0o755

/** Makes a folder and those above it again, where there is none. A file or a link with its name is kept. */
function makeFolders(
  needs: Pick<UndoNeeds, 'disk' | 'groups' | 'displace'> & { folders: Folders; modes: ReadonlyMap<string, number> },
  path: string
): void {
  const { disk, folders, modes, groups, displace } = needs
  if (path === '' || placeOf(() => folders.at(path)) !== null) return
  makeFolders(needs, parentOf(path))
  const place = folders.place(path)
  if (disk.lstatSync(place, { throwIfNoEntry: false }) !== undefined) displace(path, place)
  disk.mkdirSync(place, firstMode)
  furnish(disk, place, { mode: modes.get(path) ?? usualMode, gid: groups.get(path) })
}

/** Gives a new directory its group and its permissions. */
function furnish(disk: Disk, place: string, { mode, gid }: { mode: number; gid: number | undefined }): void {
  if (gid !== undefined) giveOwnerAt(disk, place, { gid })
  disk.chmodSync(place, mode)
}

interface UndoNeeds {
  disk: Disk
  staging: string
  groups: ReadonlyMap<string, number>
  /** The names in the directory `aside`. */
  aside: ReadonlySet<string>
  owners: ReadonlyMap<number, KeptOwner>
  /** Whether every line was done, so that no replaced file is still in staging. */
  isPlaced: boolean
  keepEdited: Displacing['keep']
  /** Keeps the entry at `place`, whatever it is. */
  displace(path: string, place: string): void
  /** Calls `use` with the path of an entry of the target in calls, if its folder exists. */
  within(path: string, use: (place: string) => void): void
  /** Does the same, and makes the folder again. If it cannot be used, keeps the earlier file `from`, if any. */
  restore(path: string, from: string | null, use: (place: string) => void): void
}

function undoIn(
  { disk, staging, groups, aside, owners, isPlaced, keepEdited, displace, within, restore }: UndoNeeds,
  lines: readonly JournalLine[]
): void {
  const find = (place: string): Stats | undefined => disk.lstatSync(place, { throwIfNoEntry: false })
  let tree: JournalLine[] = []
  for (let i = lines.length - 1; i >= 0; i--) {
    const line = lines[i] as JournalLine
    const staged = `${staging}/files/${line.path}`
    if (line.kind === 'n' || line.kind === 'd') {
      tree.push(line)
    } else if (line.kind === 'D') {
      if (find(staged) === undefined) {
        for (const each of [...tree, line]) {
          within(each.path, place => {
            if (each.kind !== 'n' || !keepEdited(each.path, place, 'move')) removeNew(disk, place, each)
          })
        }
      }
      tree = []
    } else if (line.kind === 'R') {
      if (!aside.has(String(line.aside))) continue
      const old = `${staging}/aside/${line.aside}`
      restoreOwner(disk, old, owners.get(line.aside))
      restore(line.path, old, place => {
        const isReplaced = isPlaced || find(staged) === undefined
        const found = find(place)
        if (!isReplaced && found !== undefined) return
        // svc never put a directory here.
        if (found?.isDirectory()) displace(line.path, place)
        else if (isReplaced) {
          keepEdited(line.path, place, 'link')
          keep(disk, place, `${old}.new`)
        }
        disk.renameSync(old, place)
      })
    } else if (line.kind === 'X') {
      if (!aside.has(String(line.aside))) continue
      const old = `${staging}/aside/${line.aside}`
      restoreOwner(disk, old, owners.get(line.aside))
      restore(line.path, old, place => {
        if (find(place) !== undefined) displace(line.path, place)
        disk.renameSync(old, place)
      })
    } else if (line.kind === 'x') {
      restore(line.path, null, place => {
        const found = find(place)
        if (found !== undefined && !found.isDirectory()) displace(line.path, place)
        makeAgain(disk, place, { mode: line.mode, gid: groups.get(line.path) })
      })
    } else if (line.kind === 'T') {
      const { fromMs, toMs } = line
      const isExpected = ({ mtimeMs }: Stats): boolean => Math.abs(mtimeMs - toMs) < sameTimeMs
      within(line.path, place => void changeTime(disk, place, { toMs: fromMs, isExpected }))
    } else if (find(staged) === undefined) {
      within(line.path, place => {
        // svc never put a directory here.
        if (find(place)?.isDirectory() !== false) return
        if (!keepEdited(line.path, place, 'move')) moveIfThere(disk, place, staged)
      })
    }
  }
}

/** Mode of a directory until it gets the one that it had. */
const firstMode = 0o700

/** Makes a directory that was removed, unless there is an entry with its name. */
function makeAgain(disk: Disk, place: string, had: { mode: number; gid: number | undefined }): void {
  const found = disk.lstatSync(place, { throwIfNoEntry: false })
  if (found === undefined) disk.mkdirSync(place, firstMode)
  // Putting back may have been interrupted between the two calls.
  else if (!found.isDirectory() || (found.mode & 0o7777) !== firstMode) return
  furnish(disk, place, had)
}

/** Gives a file another name if possible. */
function keep(disk: Disk, place: string, name: string): void {
  try {
    disk.linkSync(place, name)
  } catch {
    // Putting back works without the link, but is slower.
  }
}

/**
 * A directory in the way of a file that is moved back was created by somebody else in the meantime, and does not belong
 * to svc.
 */
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
 * Removes an entry of a new directory, and finally the directory itself. Anything that somebody else has put there
 * since stays, and so do the directories that contain it.
 */
function removeNew(disk: Disk, place: string, { kind }: JournalLine): void {
  try {
    if (kind === 'n') disk.unlinkSync(place)
    else disk.rmdirSync(place)
  } catch (error) {
    if (!notRemovable.has((error as NodeJS.ErrnoException).code ?? '')) throw error
  }
}
