/*
 * The staging directory of a deployment, on the file system of the target.
 *
 *   <target>/.svc-staging-<id>/        mode 0700, owned by svc's user
 *     files/<path>                     entries that will be moved into place; the tree mirrors the target
 *     aside/<n>                        replaced entries, kept until the end (commit.ts)
 *     <mark>                           an empty directory whose random name only the undo journal knows
 *
 * No other user can enter it. But the owner of the target can rename it and put something else in its place. So it is
 * held from the moment it is created. Nothing is written to it before svc has verified that the held directory is the
 * one that it created: it belongs to svc's user, no other user may enter it, it is on the target's file system, and it
 * is empty. From then on neither its path (`HeldDirectory.path`) nor any path below it can lead elsewhere.
 *
 * Later it is found by its name, which proves nothing by itself: it must contain the mark, and be either the directory
 * with the inode that the journal names, or one that belongs to the user that wrote the journal and is closed to other
 * users. The inode alone could not do: some file systems (FUSE, FAT) assign another one after they have dropped the
 * directory from their cache, or were mounted again. Owner and mode alone could not do either: a script of the project
 * changes both with `chown -R` or `chmod -R` in the target.
 */
import { randomBytes } from 'node:crypto'
import { stagingPrefix } from '../base/files.js'
import { Refusal } from '../base/errors.js'
import type { Disk } from './disk.js'
import { holdChild, identityOf, removeContents, statHeld, type HeldDirectory } from './held.js'
import type { Plan } from './plan.js'

/** Returns the name of a deployment's staging directory in its target. */
export const stagingName = (deployId: string): string => stagingPrefix + deployId

/** A held staging directory. */
export interface Staging extends HeldDirectory {
  readonly mark: string
}

/** The staging directory of an earlier extraction. The mark is null if its journal does not contain one. */
export interface FoundStaging extends HeldDirectory {
  readonly mark: string | null
  /** Its name, if somebody has renamed it in the target. */
  readonly name?: string
}

const othersBits = 0o077
const markBytes = 16

/**
 * Creates the staging directory, empty except for its mark. Refuses (`conflict`): staging_in_the_way if the name is
 * taken, target_changed if the target was removed, and staging_not_ours if the directory with that name is not the one
 * that was created.
 */
export function makeStaging(disk: Disk, root: HeldDirectory, deployId: string): Staging {
  const name = stagingName(deployId)
  try {
    disk.mkdirSync(`${root.path}/${name}`, 0o700)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT')
      throw new Refusal('conflict', 'target_changed', 'Nothing was changed: the target was removed in the meantime')
    if (code !== 'EEXIST') throw error
    throw new Refusal(
      'conflict',
      'staging_in_the_way',
      `Nothing was changed: the target already contains "${name}". Remove it and deploy again`
    )
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

/** Error codes for a directory that was removed or exchanged after it was created. */
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
  return new Refusal(
    'conflict',
    'staging_not_ours',
    `Nothing was changed: "${name}", which svc just created in the target, does not belong to the user that svc ` +
      'runs as. Either another user replaced it, or the file system assigns files to another user'
  )
}

/** Creates every folder of the plan in a staging directory. */
export function furnishStaging(disk: Disk, { path: staging }: HeldDirectory, plan: Plan): void {
  disk.mkdirSync(`${staging}/aside`, 0o700)
  for (const { path } of plan.folders) disk.mkdirSync(path === '' ? `${staging}/files` : `${staging}/files/${path}`)
}

/** The signs by which the staging directory of a journal is recognized. */
export interface StagingSigns {
  deployId: string
  /** The user that wrote the journal. */
  user: number
  /** Null if the journal has no mark, because of a crash before it was written. */
  mark: string | null
  /** The device and inode of the directory; null or absent in journals of earlier versions. */
  place?: { staging: string } | null
}

/**
 * Holds the staging directory of an earlier extraction. Returns null if it was removed, or if the directory with its
 * name is another one.
 */
export function findStaging(
  disk: Disk,
  root: HeldDirectory,
  { deployId, user, mark, place }: StagingSigns
): FoundStaging | null {
  const known = stagingName(deployId)
  const name = place == null ? known : (nameOf(disk, root, place.staging) ?? known)
  let held: HeldDirectory
  try {
    held = holdChild(disk, root, name)
  } catch (error) {
    if (gone.has((error as NodeJS.ErrnoException).code ?? '')) return null
    throw error
  }
  try {
    const stats = statHeld(disk, held)
    const isOwn = process.geteuid === undefined || (stats.uid === user && (stats.mode & othersBits) === 0)
    // It is empty if its removal was interrupted.
    const isEmpty = isOwn && disk.readdirSync(held.path).length === 0
    if (!isOwn && mark !== null && place?.staging === identityOf(disk, held)) {
      closeAgain(disk, held)
      if (hasMark(disk, held, mark)) return { ...held, mark, name }
    }
    if (isOwn && (mark === null || isEmpty || hasMark(disk, held, mark))) return { ...held, mark, name }
  } catch (error) {
    held.close()
    throw error
  }
  held.close()
  return null
}

/** Returns the name that a directory has in the target now; null if it is not there. */
function nameOf(disk: Disk, root: HeldDirectory, identity: string): string | null {
  const isIt = (name: string): boolean => {
    const stats = disk.lstatSync(`${root.path}/${name}`, { throwIfNoEntry: false })
    return stats?.isDirectory() === true && `${stats.dev}:${stats.ino}` === identity
  }
  return disk.readdirSync(root.path).find(isIt) ?? null
}

/** Gives the directories that svc works in the mode that svc gave them, after a script has changed it. */
function closeAgain(disk: Disk, held: HeldDirectory): void {
  disk.chmodSync(held.path, 0o700)
  for (const name of ['aside', 'files']) {
    let child: HeldDirectory
    try {
      child = holdChild(disk, held, name)
    } catch (error) {
      if (gone.has((error as NodeJS.ErrnoException).code ?? '')) continue
      throw error
    }
    try {
      disk.chmodSync(child.path, 0o700)
    } finally {
      child.close()
    }
  }
}

function hasMark(disk: Disk, held: HeldDirectory, mark: string): boolean {
  return disk.lstatSync(`${held.path}/${mark}`, { throwIfNoEntry: false })?.isDirectory() ?? false
}

/**
 * Error codes when another entry has the name of the emptied directory, which was renamed. The directory stays where it
 * is.
 */
const taken = new Set(['ENOENT', 'ENOTEMPTY', 'EEXIST', 'ENOTDIR'])

/**
 * Removes a held staging directory with all its contents. The mark is removed last, so that the directory can be
 * recognized until then.
 */
export function removeStaging(
  disk: Disk,
  { root, staging, deployId }: { root: HeldDirectory; staging: Staging | FoundStaging; deployId: string }
): void {
  removeContents(disk, staging, staging.mark)
  removeContents(disk, staging)
  const name = ('name' in staging && staging.name) || stagingName(deployId)
  try {
    disk.rmdirSync(`${root.path}/${name}`)
  } catch (error) {
    if (!taken.has((error as NodeJS.ErrnoException).code ?? '')) throw error
  }
}
