/*
 * The undo journal, and the recovery of a target with it.
 *
 * Each extraction has one text file, `<deployments>/<id>.undo`. It is outside the target, so that a start finds
 * interrupted extractions without searching targets.
 *
 *   svc-undo 3                  format and version (2 does not encode paths; 1 also lacks the line `staging`)
 *   helper <user> <pid> <start> only if a helper process works on it (journal-file.ts)
 *   target <path>               the real path of the target
 *   (the staging directory is created only after these lines are on disk)
 *   staging <mark>              the staging directory was created, and contains this mark (staging.ts)
 *   D <path>                    a new directory, to be moved into place with all its contents
 *   d <path>  n <path>          … a directory or a file in it, so that undo removes these and nothing else
 *   N <path>                    a new file, to be moved into an existing directory
 *   R <n> <path>                a file to be replaced; the existing one is linked to `aside/<n>` first
 *   T <ms> <ms> <path>          a file whose time alone changes, from the first to the second
 *   ready <lines> <crc>         end of the list. All of it is on disk before the first rename (fdatasync)
 *                               Control characters and `%` in paths are encoded as in URLs: one path, one line
 *   done                        everything is in place, and on disk; only staging remains to be removed
 *   undone                      everything was put back, and is on disk; only staging remains to be removed
 *
 * States that may be found:
 *   no `ready`, or a torn one   nothing has been moved: staging is removed.
 *   `ready`                     each line that was done is undone, in reverse order. The disk itself shows whether a
 *                               line was done: a file that is still in staging was not moved. A file without the second
 *                               time did not get it, or was changed since. So undoing may be interrupted as well,
 *                               and be started again.
 *   `done`, `undone`            the deployment is complete, or was put back: staging is removed. The journal of a
 *                               complete deployment stays until its record says so: a start recognizes it by that.
 *
 * After a kill -9 the kernel has every call that was made, in order, so the above is exact. After a power cut it has
 * what reached the disk. A file system with a journal of its own keeps names up to some moment, in order, and contents
 * only if they were synced. The journal may be on another disk than the target, so each is synced before the other
 * continues: staging and the contents of all new files before `ready`, the journal before the first rename, the changed
 * directories before `done` (durable.ts), and everything that was put back before `undone`. Replaced files were synced
 * by their own deployment, so undo does not depend on that. test/install/power-cut.test.ts builds the
 * states that may be left.
 */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { Refusal } from '../base/refusal.js'
import { disk, syncDirectory, type Disk } from './disk.js'
import type { HeldDirectory } from './held.js'
import {
  decodePath,
  deployIdOf,
  helperOf,
  journalAt,
  journalVersion,
  type JournalFile,
  type JournalHelper
} from './journal-file.js'
import { formatLine, parseLine, type JournalLine } from './journal-line.js'
import { putBack } from './put-back.js'
import { holdTarget } from './reach.js'
import { findStaging, removeStaging, type FoundStaging, type Staging, type StagingSigns } from './staging.js'

/** Versions that do not encode paths. */
const plainVersions = new Set(['svc-undo 1', 'svc-undo 2'])
/** Number of lines that are collected before a write. */
const batchLines = 2_000

/** The journal of an extraction in progress. */
export interface Journal {
  readonly file: JournalFile
  /**
   * Records that the staging directory was created with this mark. Reaches the disk together with the list; nothing is
   * moved before that.
   */
  staged(mark: string): void
  /** Writes and syncs the list of actions, before the first of them. */
  ready(lines: Iterable<JournalLine>): void
  /** Records that everything is in place: from here on nothing is undone. */
  done(): void
}

/** Begins the journal of an extraction into a target. It is on disk when this returns. */
export function beginJournal(file: JournalFile, target: string): Journal {
  file.begin(target)
  return {
    file,
    staged: mark => file.append([`staging ${mark}\n`], { isSynced: false }),
    ready: lines => file.append(formatLines(lines)),
    done: () => file.append(['done\n'])
  }
}

function* formatLines(lines: Iterable<JournalLine>): Generator<string> {
  let crc = sumSeed
  let count = 0
  let batch: string[] = []
  const take = (): string => {
    const text = batch.join('')
    crc = checksum(text, crc)
    count += batch.length
    batch = []
    return text
  }
  for (const line of lines) {
    batch.push(formatLine(line))
    if (batch.length >= batchLines) yield take()
  }
  yield take()
  yield `ready ${count} ${crc.toString(16)}\n`
}

/**
 * The seed is not 0 as in plain versions. With 0, NULs before the list, which a power cut may leave in a line, would
 * not change the sum.
 */
const sumSeed = 1

/** A sum over the text that distinguishes a torn list from a complete one. The number of lines does most of that. */
function checksum(text: string, seed: number): number {
  let sum = seed
  for (let i = 0; i < text.length; i++) sum = (Math.imul(sum, 31) + text.charCodeAt(i)) >>> 0
  return sum
}

interface Found extends StagingSigns {
  target: string
  state: 'begun' | 'ready' | 'done' | 'undone'
  lines: JournalLine[]
}

/** Returns null if not even the head is complete: then nothing was created yet. */
function readJournal(file: Pick<JournalFile, 'read' | 'deployId'>): Found | null {
  const { text, user } = file.read()
  const parts = text.split('\n')
  const version = parts.shift() ?? ''
  const isPlain = plainVersions.has(version)
  const pathOf = isPlain ? (path: string) => path : decodePath
  if (parts[0]?.startsWith('helper ')) parts.shift()
  if ((!isPlain && version !== journalVersion) || !parts[0]?.startsWith('target ') || parts.length < 2) return null
  const target = pathOf(parts[0].slice('target '.length))
  const mark = parts.length > 2 && parts[1]?.startsWith('staging ') ? parts[1].slice('staging '.length) : null
  const found = { target, deployId: file.deployId, user, mark }
  const begin = mark === null ? 1 : 2
  const end = parts.findIndex((part, i) => i >= begin && part.startsWith('ready '))
  if (end === -1 || end === parts.length - 1) return { ...found, state: 'begun', lines: [] }
  const listed = parts.slice(begin, end)
  const sum = checksum(listed.map(line => `${line}\n`).join(''), isPlain ? 0 : sumSeed)
  if (parts[end] !== `ready ${listed.length} ${sum.toString(16)}`) return { ...found, state: 'begun', lines: [] }
  // The last part has no newline: it is torn, or empty.
  const last = parts.slice(end + 1, -1)
  const state = last.includes('undone') ? 'undone' : last.includes('done') ? 'done' : 'ready'
  return { ...found, state, lines: listed.map(line => parseLine(line, pathOf)) }
}

/** The result of recovering an interrupted extraction. */
export type Recovery =
  | 'untouched' // nothing had been moved
  | 'put back' // everything that had been moved was put back
  | 'complete' // everything was in place
  | 'absent' // the target does not exist (removed, or its disk is missing), so nothing can be put back now
  | 'lost' // the staging directory is missing or not svc's, or the target is a file, so nothing can be put back

/**
 * The directories that the extraction itself still holds when it puts the target back: no name can lead it elsewhere.
 */
export interface StillHeld {
  root: HeldDirectory
  /** Null if its creation failed; the directory may or may not exist. */
  staging: Staging | null
}

/** How an extraction is recovered. */
export interface RecoverOptions {
  /** If absent, target and staging directory are looked up. The latter must be the one that the extraction created. */
  held?: StillHeld
  /** Called while the journal still exists, to do what must be done before this extraction is forgotten. */
  settle?(recovery: Recovery): void
}

/**
 * Ends the extraction of a journal: puts the target back, or leaves it complete. Removes the journal, unless something
 * remains to be done: to record that the extraction is `complete`, or to put back a target that is `absent`.
 */
export function recover(disk: Disk, file: JournalFile, { held, settle }: RecoverOptions = {}): Recovery {
  const found = readJournal(file)
  let recovery: Recovery = 'untouched'
  if (found !== null) {
    const needs = { disk, file, found }
    if (held === undefined) recovery = recoverLater(needs)
    else if (held.staging === null) recovery = recoverFound(needs, held.root)
    else recovery = recoverIn(needs, held)
  }
  settle?.(recovery)
  if (recovery !== 'complete' && recovery !== 'absent') file.remove()
  return recovery
}

interface RecoverNeeds {
  disk: Disk
  file: JournalFile
  found: Found
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
      return found.state === 'done' ? 'complete' : 'lost'
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
  { disk, file, found }: RecoverNeeds,
  { root, staging }: { root: HeldDirectory; staging: Staging | FoundStaging | null }
): Recovery {
  const { deployId, state, lines } = found
  if (state === 'ready') {
    if (staging === null) return 'lost'
    // Without `aside`, everything was put back before, and the current files do not belong to svc.
    if (disk.lstatSync(`${staging.path}/aside`, { throwIfNoEntry: false }) !== undefined) {
      putBack({ disk, root, staging: staging.path }, lines)
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
  return recoveries[state]
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

const recoveries = { begun: 'untouched', ready: 'put back', undone: 'put back', done: 'complete' } as const

/** Lists the journals in a directory, with their deployments. */
export function listJournals(deployments: string): Array<{ deployId: string; path: string }> {
  const names = readdirSync(deployments).filter(name => name.endsWith('.undo'))
  return names.map(name => ({ deployId: deployIdOf(name), path: join(deployments, name) }))
}

/**
 * Returns the target and the helper process of a journal. Returns null if the journal no longer exists: another
 * deployment may just have finished.
 */
export function describeJournal(path: string): { target: string | null; helper: JournalHelper | null } | null {
  try {
    const file = journalAt(disk, path)
    return { target: readJournal(file)?.target ?? null, helper: helperOf(file.read().text) }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}
