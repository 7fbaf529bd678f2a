/*
 * The undo journal, and the recovery of a target with it.
 *
 * Each extraction has one text file, `<deployments>/<id>.undo`. It is outside the target, so that a start finds
 * interrupted extractions without searching targets.
 *
 *   svc-undo 4                  format and version (3 has no `placed`; 2 does not encode paths; 1 also lacks `staging`)
 *   helper <user> <pid> <start> only of earlier versions of svc (now `<id>.helper`)
 *   target <path>               the real path of the target
 *   (the staging directory is created only after these lines are on disk)
 *   staging <mark>              the staging directory was created, and contains this mark (staging.ts)
 *   D <path>                    a new directory, to be moved into place with all its contents
 *   d <path>  n <path>          … a directory or a file in it, so that undo removes these and nothing else
 *   N <path>                    a new file, to be moved into an existing directory
 *   R <n> <path>                a file to be replaced; the existing one is linked to `aside/<n>` first
 *   T <ms> <ms> <path>          a file whose time alone changes, from the first to the second
 *   X <n> <path>                a file to be removed; it is moved to `aside/<n>`
 *   x <mode> <path>             a directory that is empty by then, to be removed; its permission bits in octal digits
 *   ready <lines> <crc>         end of the list. All of it is on disk before the first rename (fdatasync)
 *                               Control characters and `%` in paths are encoded as in URLs: one path, one line
 *   at <dev>:<ino> <dev>:<ino>  follows `ready`: which directories target and staging are. A path may lead to another one
 *                               later: then this target is absent
 *   m <mode> <path>             a folder that contains what is replaced or removed, with its permission bits
 *   g <gid> <path>              its group, or that of a removed directory, if it is not that of the process
 *   o <n> <mode> <uid> <gid> <inode>  owner and permissions of `aside/<n>`, if scripts run while it is kept (kept-owner.ts)
 *   placed <ms> <crc>           everything is in place, and on disk, but may still be put back (only if the deployment is
 *                               checked or confirmed afterwards); with the time
 *   reverting                   a placed deployment is being put back
 *   done                        everything is in place, and on disk; only staging remains to be removed
 *   undone                      everything was put back, and is on disk; only staging remains to be removed
 *
 * States that may be found:
 *   no `ready`, or a torn one   nothing has been moved: staging is removed.
 *   `ready`                     each line that was done is undone, in reverse order. The disk itself shows whether a
 *                               line was done: a file that is still in staging was not moved. A file without the second
 *                               time did not get it, or was changed since. So undoing may be interrupted as well,
 *                               and be started again.
 *   `placed`                    the caller decides: nothing is done, or the deployment is completed, or it is put back.
 *   `reverting`                 like `ready`, except that files which were edited since are kept (before-images.ts). The
 *                               line is on disk before the first of these moves, so a start does not mistake a half
 *                               reverted target for a placed one. The journal stays until the record says so.
 *   `done`, `undone`            the deployment is complete, or was put back: staging is removed. The journal of a
 *                               complete deployment stays until its record says so: a start recognizes it by that.
 *
 * After a kill -9 the kernel has every call that was made, in order, so the above is exact. After a power cut it has
 * what reached the disk. A file system with a journal of its own keeps names up to some moment, in order, and contents
 * only if they were synced. The journal may be on another disk than the target, so each is synced before the other
 * continues: staging and the contents of all new files before `ready`, the journal before the first rename, the changed
 * directories before `done` (durable.ts), and everything that was put back before `undone`. Replaced files were synced
 * by their own deployment, so undo does not depend on that. test/core/install/power-cut.test.ts builds the
 * states that may be left.
 */

import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { hasCode, Refusal } from '../../base/errors.js'
import { integer, line, maxPathLength, multiline, readFields } from '../../base/fields.js'
import { disk, type Disk, syncDirectory, writeFully } from './disk.js'
import { createDisplacing, type Displaced, type PlacedFile, publishDisplaced } from './before-images.js'
import { type HeldDirectory, holdTarget, identityOf } from './held.js'
import { deployIdOf, type FoundJournal, journalAt, type JournalFile, notedHelper, readJournal } from './journal.js'
import { putBack } from './put-back.js'
import { findStaging, type FoundStaging, removeStaging, type Staging } from './staging.js'

/** The result of recovering an interrupted extraction. */
export type Recovery =
  | 'untouched' // nothing had been moved
  | 'put back' // everything that had been moved was put back
  | 'complete' // everything was in place
  | 'held' // everything is in place and may still be put back; nothing was done
  | 'reverted' // a placed deployment was put back; the journal stays until that is recorded
  | 'absent' // the path leads to nothing, or to another directory (a disk is not mounted): nothing can be put back now
  | 'lost' // the staging directory in the target is missing or not svc's, so nothing can be put back

/**
 * The directories that the extraction itself still holds when it puts the target back: no name can lead it elsewhere.
 */
export interface StillHeld {
  root: HeldDirectory
  /** Null if its creation failed; the directory may or may not exist. */
  staging: Staging | null
}

/** What a recovery does with a deployment that is placed but not settled. */
export type PlacedDecision = 'leave' | 'revert' | 'settle'

/** How an extraction is recovered. */
export interface RecoverOptions {
  /** If absent, target and staging directory are looked up. The latter must be the one that the extraction created. */
  held?: StillHeld
  /** What to do with a deployment that is placed but not settled; default: `revert`. */
  placed?: PlacedDecision | undefined
  /** Returns the files of the deployment by their paths. Files that differ from them are kept (before-images.ts). */
  files?: (() => ReadonlyMap<string, PlacedFile>) | undefined
  /** Called with the edited files that were kept. */
  onDisplaced?: ((displaced: Displaced) => void) | undefined
  /** Called while the journal still exists, to do what must be done before this extraction is forgotten. */
  settle?(recovery: Recovery): void
}

/**
 * Ends the extraction of a journal: puts the target back, or leaves it complete. Removes the journal, unless something
 * remains to be done: to record that the extraction is `complete` or `reverted`, or to put back a target that is
 * `absent`. Does nothing if a placed deployment is to be left as it is.
 */
export function recover(disk: Disk, file: JournalFile, options: RecoverOptions = {}): Recovery {
  const { held, settle, placed = 'revert' } = options
  const found = readJournal(file)
  let recovery: Recovery = 'untouched'
  if (found !== null && placed === 'leave' && openStateOf(found) !== null) {
    recovery = 'held'
  } else if (found !== null) {
    if (found.state === 'placed' && placed !== 'leave') decide(file, found, placed)
    const needs = { disk, file, found, options }
    if (held === undefined) recovery = recoverLater(needs)
    else if (held.staging === null) recovery = recoverFound(needs, held.root)
    else recovery = recoverIn(needs, held)
  }
  settle?.(recovery)
  if (!staying.has(recovery)) file.remove()
  return recovery
}

/** Recoveries after which the journal stays. */
const staying: ReadonlySet<Recovery> = new Set(['complete', 'absent', 'held', 'reverted'])

/** Writes the decision about a placed deployment to its journal, before anything is moved. */
function decide(file: JournalFile, found: FoundJournal, placed: 'revert' | 'settle'): void {
  // A newline ends a line that was torn.
  file.append([placed === 'settle' ? '\ndone\n' : '\nreverting\n'])
  found.state = placed === 'settle' ? 'done' : 'reverting'
}

interface RecoverNeeds {
  disk: Disk
  file: JournalFile
  found: FoundJournal
  options: RecoverOptions
}

function recoverLater(needs: RecoverNeeds): Recovery {
  const { disk, found } = needs
  if (disk.lstatSync(found.target, { throwIfNoEntry: false }) === undefined) {
    return found.state === 'done' ? 'complete' : 'absent'
  }
  let root: HeldDirectory
  try {
    root = holdTarget(disk, found.target)
  } catch (error) {
    if (error instanceof Refusal && error.code === 'target_is_a_file')
      return found.state === 'done' ? 'complete' : 'absent'
    throw error
  }
  try {
    return recoverFound(needs, root)
  } finally {
    root.close()
  }
}

function recoverFound(needs: RecoverNeeds, root: HeldDirectory): Recovery {
  const staging = findStaging(needs.disk, root, needs.found)
  try {
    return recoverIn(needs, { root, staging })
  } finally {
    staging?.close()
  }
}

function recoverIn(
  { disk, file, found, options }: RecoverNeeds,
  { root, staging }: { root: HeldDirectory; staging: Staging | FoundStaging | null }
): Recovery {
  const { deployId, state, lines, placedAtMs } = found
  const isPutBack = state === 'ready' || state === 'reverting'
  if (isPutBack) {
    if (staging === null) return withoutStaging(disk, root, found)
    // Without `aside`, everything was put back before, and the current files do not belong to svc.
    if (disk.lstatSync(`${staging.path}/aside`, { throwIfNoEntry: false }) !== undefined) {
      const needs = { disk, root, staging: staging.path }
      const files = state === 'reverting' ? options.files?.() : undefined
      const displacing =
        files === undefined || placedAtMs === null ? undefined : createDisplacing({ ...needs, placedAtMs, files })
      const notBack = putBack(
        { ...needs, modes: found.modes, groups: found.groups, owners: found.owners, displacing },
        lines
      )
      const displaced = publishDisplaced(disk, { ...needs, deployId, notBack })
      if (displaced !== null) {
        syncDirectory(disk, root.path)
        options.onDisplaced?.(displaced)
      }
      disk.renameSync(`${staging.path}/aside`, `${staging.path}/undone`)
    }
    // This directory was changed last, so syncing it puts everything that was put back on disk (durable.ts).
    syncDirectory(disk, staging.path)
    recordUndone(file)
  }
  if (staging !== null) {
    removeStaging(disk, { root, staging, deployId })
    syncDirectory(disk, root.path)
  }
  if (state === 'begun') return 'untouched'
  if (state === 'done') return 'complete'
  return placedAtMs === null ? 'put back' : 'reverted'
}

/**
 * Another directory at the path is not the target: its disk is not mounted, or it was moved. An empty one is what most
 * mount points look like, which is all that journals of earlier versions allow to say.
 */
function withoutStaging(disk: Disk, root: HeldDirectory, { place }: FoundJournal): 'absent' | 'lost' {
  const isOther = place !== null && place.target !== identityOf(disk, root)
  return isOther || disk.readdirSync(root.path).length === 0 ? 'absent' : 'lost'
}

/**
 * Records that everything was put back. If this fails (full disk), only a kill within the next moment matters: the
 * result would then be `lost`.
 */
function recordUndone(file: JournalFile): void {
  try {
    // The newline ends a line `done` that a power cut has torn.
    file.append(['\nundone\n'])
  } catch {
    // The target has been put back; only the record of it is missing.
  }
}

/** Lists the journals in a directory, with their deployments. */
export function listJournals(deployments: string): Array<{ deployId: string; path: string }> {
  const names = readdirSync(deployments).filter(name => name.endsWith('.undo'))
  return names.map(name => ({ deployId: deployIdOf(name), path: join(deployments, name) }))
}

/** Removes a journal, and then what belongs to it: a journal without its owner would be one of svc itself. */
export function removeJournalFiles(path: string): void {
  for (const each of [path, ownerPathOf(path)]) rmSync(each, { force: true })
}

/** Removes the owners, whole or being written, that a kill between two calls has left without a journal. */
export function removeLeftOwners(deployments: string): void {
  for (const name of readdirSync(deployments)) {
    const [, id] = /^(.+)\.helper(?:\.tmp)?$/.exec(name) ?? []
    if (id !== undefined && !existsSync(join(deployments, `${id}.undo`)))
      rmSync(join(deployments, name), { force: true })
  }
}

/** Whose extraction a journal is about. */
export interface DescribedJournal {
  /** The real path of the target; null if nothing was created yet. */
  target: string | null
  /** Null if a thread of svc works on it. */
  helper: JournalHelper | null
}

/** The helper process of a journal. In those of earlier versions, only what the journal itself says is known. */
export type JournalHelper = Pick<JournalOwner, 'user' | 'pid' | 'startedAt'> & Partial<JournalOwner>

/** `placed`: not settled. `reverting`: being put back, or put back. Null: neither. */
export type OpenState = 'placed' | 'reverting' | null

function openStateOf({ state, placedAtMs }: FoundJournal): OpenState {
  if (placedAtMs === null || state === 'done') return null
  return state === 'placed' ? 'placed' : 'reverting'
}

/**
 * Returns the target and the helper process of a journal. Returns null if the journal no longer exists: another
 * deployment may just have finished.
 */
export function describeJournal(path: string): DescribedJournal | null {
  const owner = readOwner(path)
  // The journal of a helper process is not read: its user can write it.
  if (owner !== null) return existsSync(path) ? { target: owner.target, helper: owner } : null
  return ifThere(() => {
    const file = journalAt(disk, path)
    return { target: readJournal(file)?.target ?? null, helper: notedHelper(file.read().text) }
  })
}

/** Returns the state of a journal; null if it no longer exists. */
export function openStateOfJournal(path: string): OpenState {
  const found = ifThere(() => readJournal(journalAt(disk, path)))
  return found === null ? null : openStateOf(found)
}

function ifThere<T>(read: () => T): T | null {
  try {
    return read()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}

/*
 * `deployments/<id>.helper`: which helper process works on an extraction, with whose rights, and in which target. The
 * file is there as long as the undo journal is.
 *
 * svc alone writes it, before the process gets its job. The process, and with it the user of the project, can write the
 * journal itself. So svc takes from the journal nothing that it acts on with its own rights: not whose rights a recovery
 * has, not which process it ends, and not which deployments have to wait for it.
 */

/** The process that performs an extraction instead of a thread of svc. */
export interface JournalOwner {
  user: string
  uid: number
  pid: number
  /** Start time and boot as in proc(5). They distinguish the process from a later one with the same number. */
  startedAt: string
  bootId: string
  /** The real path of the target. */
  target: string
}

const fields = {
  user: line({ min: 1 }),
  uid: integer(0, 2 ** 32),
  pid: integer(1, 2 ** 31),
  startedAt: line(),
  bootId: line(),
  target: multiline({ min: 1, max: maxPathLength })
}

/** Returns the path of the file that belongs to a journal. */
export function ownerPathOf(journalPath: string): string {
  return journalPath.replace(/\.undo$/, '.helper')
}

/** Writes the owner of a journal. It and the names in its directory are on disk when this returns. */
export function writeOwner(disk: Disk, journalPath: string, owner: JournalOwner): void {
  const path = ownerPathOf(journalPath)
  const fd = disk.openSync(`${path}.tmp`, 'w', 0o600)
  try {
    writeFully(disk, fd, Buffer.from(`${JSON.stringify(owner)}\n`))
    disk.fdatasyncSync(fd)
  } finally {
    disk.closeSync(fd)
  }
  disk.renameSync(`${path}.tmp`, path)
  syncDirectory(disk, dirname(path))
}

/** Returns the owner of a journal, or null if a thread of svc works on it. */
export function readOwner(journalPath: string): JournalOwner | null {
  try {
    return readFields(JSON.parse(readFileSync(ownerPathOf(journalPath), 'utf8')), fields)
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return null
    throw error
  }
}
