import { instantOf } from '../../base/clock.js'
import { chown, copyFile, lstat, mkdir, open, readdir, readFile, realpath, rmdir, utimes } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileSeconds, freeBytes, makeDirectories, replaceFile, syncDirectory, OpenFile } from '../../base/files.js'
import { refuseLooseHome, restoredName } from '../../base/config/home.js'
import { formatBytes } from '../../base/shared/api.js'
import { isDiskFull, nullIfMissing, reasonOf, Refusal, spaceCure } from '../../base/errors.js'
import { ownDirectory } from '../../core/store/owner.js'
import { type BackupFile, deploymentsName, type Reading } from './format.js'
import {
  buildingPrefix,
  commitRestore,
  findContents,
  finishRestore,
  makeAside,
  placesWithin,
  removeUnfinished
} from './place.js'
import type { Backup, FileWriter } from './read.js'
import { type Kept, readKept, type RestoredFile } from './revoked.js'

/** The target directory and the options of a restore. */
export interface RestoreRequest extends Reading {
  /** The data directory; it need not exist. */
  directory: string
  /** Whether existing files are moved aside; if false, any existing file is refused. */
  force: boolean
  clock: { now(): number }
  ids: { token(): string }
}

/** An undo journal, its owner, and the lists of what the deployment and its script have put in place. */
const besideJournals = /\.(undo|helper|manifest|scripted)$/

/** Number of files that are synced at the same time. */
const syncsAbreast = 16

/** The keys of `svc serve --require-signatures`. */
const signersName = 'keys/allowed_signers'

export interface Restored {
  /** The directory that the old files were moved to; null if there were none. */
  aside: string | null
  /** What is kept of the replaced database; null if there was none that can be read. */
  kept: Kept | null
  /** Whether `keys/allowed_signers` stays as it was, and differs from that of the backup. */
  signers: boolean
}

/**
 * Replaces the contents of a data directory with a backup, all of it or nothing (place.ts), accessible to its owner
 * only. Refuses `in_use`, `not_empty`, `no_space`, `backup_damaged`, `unsafe_home`, `restore_unfinished`.
 */
export async function restoreBackup(backup: Backup, request: RestoreRequest): Promise<Restored> {
  const made = await makeDirectories(request.directory, 0o700)
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

/** Refuses (`conflict`, `not_empty`) a data directory that contains files. */
export async function refuseContents(directory: string): Promise<void> {
  const [first, ...others] = await findContents(directory)
  if (first === undefined) return
  const what = others.length === 0 ? `"${first}"` : `"${first}" and ${others.length} more`
  const sentence = `Cannot restore into "${directory}": the data directory is not empty, it contains ${what}. Choose another with SVC_HOME, or use --force to move the existing files aside`
  throw new Refusal('conflict', 'not_empty', sentence)
}

async function restoreInto(directory: string, backup: Backup, request: RestoreRequest): Promise<Restored> {
  await finishRestore(directory)
  if (!request.force) await refuseContents(directory)
  await refuseFull(directory, backup.summary.bytes)
  const building = join(directory, buildingPrefix + request.ids.token().slice(0, 8))
  try {
    const kept = await readKept(directory)
    await build(building, backup, { ...request, kept })
    const signers = await keepSigners(directory, placesWithin(building).data)
    await keepJournals(directory, placesWithin(building).data)
    const isOccupied = (await findContents(directory)).length > 0
    const at = instantOf(request.clock).slice(0, 19).replaceAll(':', '-')
    const aside = isOccupied ? await makeAside(directory, building, at) : null
    await giveTo(directory, aside === null ? [building] : [building, aside])
    request.signal?.throwIfAborted()
    await commitRestore(directory, building)
    return { aside, kept, signers }
  } catch (error) {
    await removeUnfinished(building)
    throw explain(error, directory)
  }
}

async function build(
  building: string,
  backup: Backup,
  { onProgress, signal, kept }: Reading & { kept: Kept | null }
): Promise<void> {
  const { data } = placesWithin(building)
  const placeOf = ({ path }: BackupFile): string => join(data, ...path.split('/'))
  const directories = new Set([data, join(data, deploymentsName), ...backup.files.map(file => dirname(placeOf(file)))])
  for (const directory of directories) await mkdir(directory, { recursive: true, mode: 0o700 })
  await backup.readAll({ ...(onProgress && { onProgress }), signal, write: writerInto(placeOf) })
  const restored: RestoredFile = { backupAt: backup.summary.createdAt, ...(kept ?? { revoked: [], sequences: {} }) }
  await replaceFile(join(data, restoredName), JSON.stringify(restored), 0o600)
  const waiting = [...backup.files]
  const settle = async (): Promise<void> => {
    for (let file = waiting.pop(); file !== undefined; file = waiting.pop())
      await settleFile(placeOf(file), file.mtimeMs)
  }
  await Promise.all(Array.from({ length: syncsAbreast }, settle))
  for (const directory of directories) await syncDirectory(directory)
}

/**
 * Keeps the list of allowed signers that the owner of the machine has there, if there is one: that of the backup may have keys
 * that were removed since. Returns whether it kept another one than the backup has.
 */
async function keepSigners(directory: string, data: string): Promise<boolean> {
  const [own, backedUp] = await Promise.all(
    [directory, data].map(top => readFile(join(top, signersName)).catch(() => null))
  )
  if (own == null || backedUp?.equals(own)) return false
  await mkdir(join(data, 'keys'), { recursive: true, mode: 0o700 })
  await replaceFile(join(data, signersName), own.toString(), 0o600)
  return true
}

/**
 * Takes over the undo journals of the replaced directory, and what a revert reads with them: they are about targets,
 * which a restore does not change. Without them, a target in the middle of a change stayed so.
 */
async function keepJournals(directory: string, data: string): Promise<void> {
  const names = (await readdir(join(directory, deploymentsName)).catch(nullIfMissing)) ?? []
  const open = new Set(names.filter(name => name.endsWith('.undo')).map(name => name.replace(/undo$/, '')))
  for (const name of names.filter(name => besideJournals.test(name) && open.has(name.replace(besideJournals, '.')))) {
    const [from, to] = [directory, data].map(top => join(top, deploymentsName, name)) as [string, string]
    const { uid, gid, mtimeMs } = await lstat(from)
    await copyFile(from, to)
    if (process.getuid?.() === 0) await chown(to, uid, gid)
    await settleFile(to, mtimeMs)
  }
  await syncDirectory(join(data, deploymentsName))
}

async function settleFile(path: string, mtimeMs: number): Promise<void> {
  await utimes(path, fileSeconds(mtimeMs), fileSeconds(mtimeMs))
  const file = await open(path, 'r+')
  try {
    await file.sync()
  } finally {
    await file.close()
  }
}

/** If root restores for another user, the files are given to that user. */
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
  const free = await freeBytes(directory)
  // Where it is unknown, writing fails on a full disk.
  if (free === null || free >= bytes) return
  throw noSpace(directory, {
    figures: `: ${formatBytes(bytes)} required, ${formatBytes(free)} free`
  })
}

/** The refusal after the commit: the restore is not undone any more. */
function notFinished(directory: string, cause: unknown): Refusal {
  const sentence = `The backup was restored, but not all files are in place in "${directory}" yet: ${reasonOf(cause)}. The next start or restore finishes it`
  return new Refusal('unavailable', 'restore_unfinished', sentence, { cause })
}

function noSpace(
  directory: string,
  { figures = '', cause = { code: 'ENOSPC' } }: { figures?: string; cause?: unknown }
): Refusal {
  const sentence = `Cannot restore into "${directory}": ${reasonOf(cause)}${figures}. ${spaceCure(cause)}, or choose another directory with SVC_HOME`
  return new Refusal('unavailable', 'no_space', sentence, { cause })
}

function explain(error: unknown, directory: string): unknown {
  return isDiskFull(error) ? noSpace(directory, { cause: error }) : error
}

/** Removes the directories that were created for the restore, from the data directory up to `made`. */
async function removeEmpty(directory: string, made: string): Promise<void> {
  for (let path = directory; path.startsWith(made); path = dirname(path)) await rmdir(path).catch(() => {})
}

/** Returns a writer that creates each file at the path that `placeOf` returns. All directories must exist. */
export function writerInto(placeOf: (file: BackupFile) => string): FileWriter {
  let open: OpenFile | undefined
  return {
    begin(file) {
      const opened = new OpenFile(placeOf(file), 'wx', 0o600)
      open = opened
      return piece => opened.writeSync(piece)
    },
    end: () => open?.close()
  }
}
