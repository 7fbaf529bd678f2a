/*
 * The atomic replacement of a data directory by a restored one: all of it or nothing, even after a kill -9 at any
 * point.
 *
 *   .restore-<random>/          being built: data/ has the files; aside (a link) is the directory for the old ones
 *   .restored/                  complete and synced: the rename to this name is the commit
 *   .restore-arriving/          the old files are aside, and the files of data/ move up one by one
 *
 * The restore is built within the data directory, because its parent may be another file system, or may not be writable
 * (a volume, /var/lib). Every process that takes ownership of the directory calls `finishRestore` first, so no server
 * sees an intermediate state: before the commit it sees the old files, after it the new ones.
 */
import { beforeRestorePrefix } from '../../base/config/home.js'
import { lstat, mkdir, readdir, readlink, realpath, rename, rm, rmdir, symlink } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { syncDirectory } from '../../base/files.js'
import { nullIfMissing } from '../../base/errors.js'

/** The prefix of a directory in which a restore is built. */
export const buildingPrefix = '.restore-'
const readyName = '.restored'
const arrivingName = '.restore-arriving'
const dataName = 'data'
const asideName = 'aside'
/** The lock of the current owner. */
const lockPattern = /^svc\.sock/

/** Returns the directory in which the files of a restore are built, and the link to the directory for the old ones. */
export function placesWithin(building: string): { data: string; aside: string } {
  return { data: join(building, dataName), aside: join(building, asideName) }
}

/**
 * Returns the names of the files in a data directory that a restore would replace. Locks, and directories without
 * files, do not count.
 */
export async function findContents(directory: string): Promise<string[]> {
  const names = await namesIn(directory)
  const found: string[] = []
  for (const name of names.filter(isOld)) if (await holdsFile(join(directory, name))) found.push(name)
  return found
}

async function holdsFile(path: string): Promise<boolean> {
  if (!(await lstat(path)).isDirectory()) return true
  for (const name of await readdir(path)) if (await holdsFile(join(path, name))) return true
  return false
}

/**
 * Creates the directory for the current files and returns its path: next to the data directory if files can be renamed
 * to it, else within it. The link in `building` names the directory before it is created, so that a kill leaves no
 * unknown directory.
 */
export async function makeAside(directory: string, building: string, at: string): Promise<string> {
  const beside = join(dirname(directory), `${basename(directory)}.before-${at}`)
  const probe = join(building, 'probe')
  const link = placesWithin(building).aside
  try {
    await symlink(beside, link, 'junction')
    await mkdir(beside, { mode: 0o700 })
    try {
      await mkdir(probe)
      await rename(probe, join(beside, 'probe'))
      await rmdir(join(beside, 'probe'))
      return beside
    } catch (error) {
      await rmdir(probe).catch(() => {})
      await rmdir(beside)
      throw error
    }
  } catch {
    const within = join(directory, beforeRestorePrefix + at)
    await rm(link, { force: true })
    await symlink(within, link, 'junction')
    await mkdir(within, { mode: 0o700 })
    return within
  }
}

/** Commits the restore: from here on the new files are the contents of the directory, and they are on the disk. */
export async function commitRestore(directory: string, building: string): Promise<void> {
  await syncDirectory(building)
  await rename(building, join(directory, readyName))
  await syncDirectory(directory)
}

/**
 * Finishes a committed restore and removes an uncommitted one. The caller owns the directory. Returns whether there was
 * a committed one.
 */
export async function finishRestore(directory: string): Promise<boolean> {
  const home = await realpath(directory)
  const names = await namesIn(home)
  for (const name of names.filter(isUnfinished)) await removeUnfinished(join(home, name))
  if (names.includes(readyName)) await moveAside(home, names)
  else if (!names.includes(arrivingName)) return false
  await moveUp(home)
  return true
}

function isUnfinished(name: string): boolean {
  return name.startsWith(buildingPrefix) && name !== arrivingName
}

/** Removes an uncommitted restore and its directory for the old files, which is still empty. */
export async function removeUnfinished(building: string): Promise<void> {
  await removeAside(building)
  await rm(building, { recursive: true, force: true })
}

/** Removes the directory for the old files of an uncommitted restore, which is still empty, and what `makeAside` left. */
export async function removeAside(building: string): Promise<void> {
  const link = placesWithin(building).aside
  const aside = await readlink(link).catch(() => null)
  if (aside !== null) {
    await rmdir(join(aside, 'probe')).catch(() => {})
    await rmdir(aside).catch(() => {})
  }
  await rm(link, { force: true })
  await rmdir(join(building, 'probe')).catch(() => {})
}

async function moveAside(home: string, names: readonly string[]): Promise<void> {
  const aside = await readlink(placesWithin(join(home, readyName)).aside).catch(() => null)
  if (aside !== null) {
    await mkdir(aside, { recursive: true, mode: 0o700 })
    const gone = await namesIn(aside)
    for (const name of names.filter(isOld)) {
      // A start in between has created an empty directory in place of the one that was moved.
      if (gone.includes(name)) await rmdir(join(home, name))
      else await rename(join(home, name), join(aside, name))
    }
    await syncDirectory(aside)
  }
  await syncDirectory(home)
  await rename(join(home, readyName), join(home, arrivingName))
  await syncDirectory(home)
}

async function moveUp(home: string): Promise<void> {
  const arriving = join(home, arrivingName)
  const { data } = placesWithin(arriving)
  for (const name of await namesIn(data)) {
    // There may be an empty directory, and Windows cannot rename over it.
    await rmdir(join(home, name)).catch(() => {})
    await rename(join(data, name), join(home, name))
  }
  await syncDirectory(home)
  await rm(arriving, { recursive: true, force: true })
}

function isOld(name: string): boolean {
  return (
    name !== readyName &&
    !name.startsWith(buildingPrefix) &&
    !name.startsWith(beforeRestorePrefix) &&
    !lockPattern.test(name)
  )
}

async function namesIn(directory: string): Promise<string[]> {
  return (await readdir(directory).catch(nullIfMissing)) ?? []
}
