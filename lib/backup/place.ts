/*
 * How a restored data directory takes its place: all of it or nothing, wherever a kill -9 falls.
 *
 *   .restore-<random>/          being built: data/ has the files, aside (a link) says where the old ones go
 *   .restored/                  the same, whole and on the disk: the rename to this name is the moment
 *   .restore-arriving/          what was there before is aside, and data/ moves up, piece by piece
 *
 * It is built within the data directory, since what lies beside may be another file system or not be this user's (a
 * volume, /var/lib). Whoever takes possession of the directory calls `finishRestore` first, so that no server ever sees
 * what lies between: before the moment the old is there, after it the new.
 */
import { lstat, mkdir, open, readdir, readlink, realpath, rename, rm, rmdir, symlink } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'

export const buildingPrefix = '.restore-'
const readyName = '.restored'
const arrivingName = '.restore-arriving'
const keptPrefix = 'before-restore-'
const dataName = 'data'
const asideName = 'aside'
/** Of the one who owns the directory now. */
const lockPattern = /^svc\.sock/

/** Where the files of a restore are built, and where the link is that says where the old ones go. */
export function placesWithin(building: string): { data: string; aside: string } {
  return { data: join(building, dataName), aside: join(building, asideName) }
}

/** What lies in a data directory and would be lost: directories without a file, and locks, are nothing. */
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
 * Makes the directory for what is there now: beside the data directory, where a rename leads there, else within it. The
 * link in `building` names it before it is made, so that a kill leaves none that nobody knows of.
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
    const within = join(directory, keptPrefix + at)
    await rm(link, { force: true })
    await symlink(within, link, 'junction')
    await mkdir(within, { mode: 0o700 })
    return within
  }
}

/** The moment: from here on the new files are what the directory holds. They are on the disk. */
export async function commitRestore(directory: string, building: string): Promise<void> {
  await syncDirectory(building)
  await rename(building, join(directory, readyName))
  await syncDirectory(directory)
}

/**
 * Ends a restore whose moment has come, and removes one whose moment never came. The caller owns the directory. Answers
 * whether there was one to be ended.
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

/** Removes a restore before its moment, with the directory that it has made for the old files: nothing is in it yet. */
export async function removeUnfinished(building: string): Promise<void> {
  const aside = await readlink(placesWithin(building).aside).catch(() => null)
  if (aside !== null) {
    await rmdir(join(aside, 'probe')).catch(() => {})
    await rmdir(aside).catch(() => {})
  }
  await rm(building, { recursive: true, force: true })
}

async function moveAside(home: string, names: readonly string[]): Promise<void> {
  const aside = await readlink(placesWithin(join(home, readyName)).aside).catch(() => null)
  if (aside !== null) {
    await mkdir(aside, { recursive: true, mode: 0o700 })
    const gone = await namesIn(aside)
    for (const name of names.filter(isOld)) {
      // A start that came in between has made an empty one in the place of what is aside.
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
    // An empty directory may stand there; Windows renames over none.
    await rmdir(join(home, name)).catch(() => {})
    await rename(join(data, name), join(home, name))
  }
  await syncDirectory(home)
  await rm(arriving, { recursive: true, force: true })
}

function isOld(name: string): boolean {
  return name !== readyName && !name.startsWith(buildingPrefix) && !name.startsWith(keptPrefix) && !lockPattern.test(name)
}

async function namesIn(directory: string): Promise<string[]> {
  return readdir(directory).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return []
    throw error
  })
}

/** Makes renames in it last. Windows, and some network file systems, cannot and need not. */
export async function syncDirectory(path: string): Promise<void> {
  const handle = await open(path, 'r').catch(() => null)
  await handle?.sync().catch(() => {})
  await handle?.close()
}
