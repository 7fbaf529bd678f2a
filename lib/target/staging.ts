/*
 * The staging directory of a deployment, on the target's file system.
 *
 *   <target>/.svc-staging-<id>/        mode 0700, of svc's user
 *     files/<path>                     what will be moved into place; the tree mirrors the target's
 *     aside/<n>                        what was replaced, kept until the end (commit.ts)
 *     <mark>                           an empty directory whose random name only the undo journal knows
 *
 * No other user can enter it. But the owner of the target can rename it, and put something else in its place. So it is
 * held from the moment it is made, and nothing is written before it is certain that the held directory is the one that
 * was made: it belongs to svc's user, no other user may enter it, it lies on the target's file system and is empty.
 * From then on its path (`HeldDirectory.path`) cannot lead elsewhere, nor can any path below it.
 *
 * After a crash it is found by its name, which is worth nothing by itself: it must belong to the user that wrote the
 * journal, be closed to others, and contain the mark. A number of an inode would not do instead of the mark: some file
 * systems (FUSE, FAT) give another one after the directory was forgotten or mounted again.
 */
import { randomBytes } from 'node:crypto'
import { stagingPrefix } from '../base/paths.js'
import { Refusal } from '../base/refusal.js'
import type { Disk } from './disk.js'
import { holdChild, removeContents, statHeld, type HeldDirectory } from './held.js'
import type { Plan } from './plan.js'

/** The name of a deployment's staging directory in its target. */
export const stagingName = (deployId: string): string => stagingPrefix + deployId

/** A staging directory that is held. */
export interface Staging extends HeldDirectory {
  readonly mark: string
}

/** One of an earlier extraction; the mark is null if its journal does not name one. */
export interface FoundStaging extends HeldDirectory {
  readonly mark: string | null
  /** Nothing but its mark is in it: its removal was cut short. */
  readonly isEmpty: boolean
}

const othersBits = 0o077
const markBytes = 16

/**
 * Makes the staging directory, empty but for its mark. Refuses (`conflict`): staging_in_the_way if the name is taken,
 * target_changed if the target is gone, and staging_not_ours if the directory under that name is not the one that was made.
 */
export function makeStaging(disk: Disk, root: HeldDirectory, deployId: string): Staging {
  const name = stagingName(deployId)
  try {
    disk.mkdirSync(`${root.path}/${name}`, 0o700)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') throw new Refusal('conflict', 'target_changed', 'Nothing was changed: the target was removed meanwhile')
    if (code !== 'EEXIST') throw error
    throw new Refusal('conflict', 'staging_in_the_way', `Nothing was changed: the target has "${name}" already; remove it`)
  }
  const held = holdMade(disk, root, name)
  try {
    if (!isFresh(disk, root, held)) throw notOurs(name)
    const mark = randomBytes(markBytes).toString('hex')
    disk.mkdirSync(`${held.path}/${mark}`, 0o700)
    return { ...held, mark }
  } catch (error) {
    held.close()
    throw gone.has((error as NodeJS.ErrnoException).code ?? '') ? notOurs(name) : error
  }
}

/** What the system says of a directory that was removed, or exchanged, since it was made. */
const gone = new Set(['ENOENT', 'ENOTDIR', 'ELOOP'])

function holdMade(disk: Disk, root: HeldDirectory, name: string): HeldDirectory {
  try {
    return holdChild(disk, root, name)
  } catch (error) {
    throw gone.has((error as NodeJS.ErrnoException).code ?? '') ? notOurs(name) : error
  }
}

function isFresh(disk: Disk, root: HeldDirectory, held: HeldDirectory): boolean {
  const { uid, mode, dev } = statHeld(disk, held)
  if (process.geteuid !== undefined && (uid !== process.geteuid() || (mode & othersBits) !== 0)) return false
  return dev === statHeld(disk, root).dev && disk.readdirSync(held.path).length === 0
}

function notOurs(name: string): Refusal {
  return new Refusal('conflict', 'staging_not_ours',
    `Nothing was changed: "${name}", which was just made in the target, does not belong to the user that svc runs as. ` +
    'Either another user has exchanged it, or the file system gives files to another user')
}

/** Makes every folder of the plan in a staging directory. */
export function furnishStaging(disk: Disk, { path: staging }: HeldDirectory, plan: Plan): void {
  disk.mkdirSync(`${staging}/aside`, 0o700)
  for (const { path } of plan.folders) disk.mkdirSync(path === '' ? `${staging}/files` : `${staging}/files/${path}`)
}

/** How a staging directory that a journal names is known again. */
export interface StagingSigns {
  deployId: string
  /** The user that wrote the journal. */
  user: number
  /** Null: the journal has no mark, because of a crash before it was written. */
  mark: string | null
}

/** Holds the staging directory of an earlier extraction; null if it is gone, or if it is not that one. */
export function findStaging(disk: Disk, root: HeldDirectory, { deployId, user, mark }: StagingSigns): FoundStaging | null {
  let held: HeldDirectory
  try {
    held = holdChild(disk, root, stagingName(deployId))
  } catch (error) {
    if (gone.has((error as NodeJS.ErrnoException).code ?? '')) return null
    throw error
  }
  try {
    const stats = statHeld(disk, held)
    const isOwn = process.geteuid === undefined || (stats.uid === user && (stats.mode & othersBits) === 0)
    const isEmpty = isOwn && disk.readdirSync(held.path).every(name => name === mark)
    if (isOwn && (mark === null || isEmpty || hasMark(disk, held, mark))) return { ...held, mark, isEmpty }
  } catch (error) {
    held.close()
    throw error
  }
  held.close()
  return null
}

function hasMark(disk: Disk, held: HeldDirectory, mark: string): boolean {
  return disk.lstatSync(`${held.path}/${mark}`, { throwIfNoEntry: false })?.isDirectory() ?? false
}

/** Something else is under the name of the directory that was emptied: it was renamed, and stays where it is. */
const taken = new Set(['ENOENT', 'ENOTEMPTY', 'EEXIST', 'ENOTDIR'])

/** Removes a held staging directory with all that is in it; the mark at last, so that it can be known again until then. */
export function removeStaging(
  disk: Disk, root: HeldDirectory, deployId: string, staging: HeldDirectory & { mark: string | null }
): void {
  removeContents(disk, staging, staging.mark)
  removeContents(disk, staging)
  try {
    disk.rmdirSync(`${root.path}/${stagingName(deployId)}`)
  } catch (error) {
    if (!taken.has((error as NodeJS.ErrnoException).code ?? '')) throw error
  }
}
