// Also as a whole: a name that this Node does not have would keep the module from being loaded.
import fs, { chown, lstat, mkdir, open, readdir, realpath, rmdir, utimes } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { formatBytes } from '../base/size.js'
import { Refusal } from '../base/refusal.js'
import { isDiskFull } from '../base/system-error.js'
import { refuseLooseHome } from '../config/trusted-home.js'
import { ownDirectory } from '../store/owner.js'
import { deploymentsName } from './contents.js'
import type { BackupFile } from './format.js'
import {
  buildingPrefix, commitRestore, findContents, finishRestore, makeAside, placesWithin, removeUnfinished, syncDirectory
} from './place.js'
import { writerInto } from './read-backup.js'
import type { Backup } from './read-backup.js'
import type { Reading } from './seal.js'

export interface RestoreRequest extends Reading {
  /** The data directory; it need not be there. */
  directory: string
  /** What is there goes aside; without, anything there is refused. */
  force: boolean
  clock: { now(): number }
  ids: { token(): string }
}

/** Files that are synced at the same time. */
const syncsAbreast = 16

/**
 * Makes a data directory what a backup holds, all of it or nothing (place.ts), for its owner only. Gives where the files
 * that were there are now; null: there were none. Refuses `in_use`, `not_empty`, `no_space`, backup_damaged.
 */
export async function restoreBackup(backup: Backup, request: RestoreRequest): Promise<{ aside: string | null }> {
  const made = await mkdir(request.directory, { recursive: true, mode: 0o700 })
  try {
    const directory = await realpath(request.directory)
    await refuseLooseHome(directory)
    const owner = await ownDirectory(directory)
    try {
      const restored = await restoreInto(directory, backup, request)
      await finishRestore(directory).catch((error: unknown) => {
        throw notFinished(directory, error)
      })
      return restored
    } finally {
      await owner.release()
    }
  } catch (error) {
    if (made !== undefined) await removeEmpty(request.directory, made)
    throw error
  }
}

/** Refuses (`conflict`, `not_empty`) a directory that holds anything. */
export async function refuseContents(directory: string): Promise<void> {
  const [first, ...others] = await findContents(directory)
  if (first === undefined) return
  const what = others.length === 0 ? `"${first}"` : `"${first}" and ${others.length} more`
  const sentence = `Nothing was restored: the data directory "${directory}" is not empty, it holds ${what}; choose another with SVC_HOME, or give --force to put what is there aside`
  throw new Refusal('conflict', 'not_empty', sentence)
}

async function restoreInto(directory: string, backup: Backup, request: RestoreRequest): Promise<{ aside: string | null }> {
  await finishRestore(directory)
  if (!request.force) await refuseContents(directory)
  await refuseFull(directory, backup.summary.bytes)
  const building = join(directory, buildingPrefix + request.ids.token().slice(0, 8))
  try {
    await build(building, backup, request)
    const isOccupied = (await findContents(directory)).length > 0
    const at = new Date(request.clock.now()).toISOString().slice(0, 19).replaceAll(':', '-')
    const aside = isOccupied ? await makeAside(directory, building, at) : null
    await giveTo(directory, aside === null ? [building] : [building, aside])
    request.signal?.throwIfAborted()
    await commitRestore(directory, building)
    return { aside }
  } catch (error) {
    await removeUnfinished(building)
    throw explain(error, directory)
  }
}

async function build(building: string, backup: Backup, { onProgress, signal }: Reading): Promise<void> {
  const { data } = placesWithin(building)
  const placeOf = ({ path }: BackupFile): string => join(data, ...path.split('/'))
  const directories = new Set([data, join(data, deploymentsName), ...backup.files.map(file => dirname(placeOf(file)))])
  for (const directory of directories) await mkdir(directory, { recursive: true, mode: 0o700 })
  await backup.readAll({ ...(onProgress && { onProgress }), signal, write: writerInto(placeOf) })
  const waiting = [...backup.files]
  const settle = async (): Promise<void> => {
    for (let file = waiting.pop(); file !== undefined; file = waiting.pop()) await settleFile(placeOf(file), file.mtimeMs)
  }
  await Promise.all(Array.from({ length: syncsAbreast }, settle))
  for (const directory of directories) await syncDirectory(directory)
}

async function settleFile(path: string, mtimeMs: number): Promise<void> {
  await utimes(path, mtimeMs / 1000, mtimeMs / 1000)
  const file = await open(path, 'r+')
  try {
    await file.sync()
  } finally {
    await file.close()
  }
}

/** Where root restores for another user, the files are that user's. */
async function giveTo(directory: string, paths: readonly string[]): Promise<void> {
  if (process.getuid?.() !== 0) return
  const { uid, gid } = await lstat(directory)
  if (uid === 0) return
  const give = async (path: string): Promise<void> => {
    const stats = await lstat(path)
    if (stats.isSymbolicLink()) return
    await chown(path, uid, gid)
    if (stats.isDirectory()) for (const name of await readdir(path)) await give(join(path, name))
  }
  for (const path of paths) await give(path)
}

async function refuseFull(directory: string, bytes: number): Promise<void> {
  const disk = await (async () => fs.statfs(directory))().catch(() => null) // Node 18.15; before, the writing says it
  if (disk === null || disk.bavail * disk.bsize >= bytes) return
  throw noSpace(directory, `${formatBytes(bytes)} are needed, and ${formatBytes(disk.bavail * disk.bsize)} are free`)
}

/** The moment has come: nothing is undone any more. */
function notFinished(directory: string, cause: unknown): Refusal {
  const sentence = `The backup was restored, but "${directory}" is not in order yet: ${(cause as Error).message}; the next start, or restore, finishes it`
  return new Refusal('unavailable', 'restore_unfinished', sentence, { cause })
}

function noSpace(directory: string, how: string, cause?: unknown): Refusal {
  const sentence = `Nothing was restored: the disk of "${directory}" has not enough space: ${how}; make some, or choose another place with SVC_HOME`
  return new Refusal('unavailable', 'no_space', sentence, { cause })
}

function explain(error: unknown, directory: string): unknown {
  return isDiskFull(error) ? noSpace(directory, 'it became full', error) : error
}

/** The directories that were made for it, from the data directory up to `made`. */
async function removeEmpty(directory: string, made: string): Promise<void> {
  for (let path = directory; path.startsWith(made); path = dirname(path)) await rmdir(path).catch(() => {})
}
