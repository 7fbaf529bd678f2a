/*
 * The undo journal, and how a target is put back with it.
 *
 * One text file for each extraction, `<deployments>/<id>.undo`, outside the target, so that a start finds what was cut
 * short without looking into targets.
 *
 *   svc-undo 3                  format and version (2 has paths as they are; 1 has no line `staging`, too)
 *   helper <user> <pid> <start> only where a helper process works on it (journal-file.ts)
 *   target <path>               the real path of the target
 *   (the staging directory is made only after these lines are on the disk)
 *   staging <mark>              it was made, and contains this mark (staging.ts)
 *   D <path>                    a new directory, to be moved into place with all that is in it
 *   d <path>  n <path>          … a directory, a file within it, so that undo removes these and nothing else
 *   N <path>                    a new file, to be moved into a directory that was there
 *   R <n> <path>                a file to be replaced; what was there is linked to `aside/<n>` first
 *   T <ms> <ms> <path>          a file whose time alone is to change, from the first to the second
 *   ready <lines> <crc>         end of the list. Before the first rename all of it is on the disk (fdatasync)
 *                               Paths have control characters and `%` encoded, as in addresses: a line is a line
 *   done                        everything is in place, and that is on the disk too: only staging is left to remove
 *   undone                      everything was put back, and that is on the disk too: only staging is left to remove
 *
 * What may be found:
 *   no `ready`, or a torn one   nothing has been moved: staging is removed.
 *   `ready`                     each line is undone if it was done, last first. Whether it was, the disk itself says:
 *                               what still lies in staging has not been moved, a file that has not the second time has
 *                               not got it, or has been changed since. So undoing may be cut short as well and be begun
 *                               again.
 *   `done`, `undone`            the deployment is complete, or was put back: staging is removed. The journal of a complete one
 *                               stays until its record says so, because it is what a start knows it by.
 *
 * After a kill -9 the kernel has every call that was made, in order, so the above is exact. After a power cut it has
 * what reached the disk: a file system with a journal of its own keeps names up to some moment, in order, and contents
 * only as far as they were synced. The journal may be on another disk than the target, so each is synced before the
 * other one goes on: staging and the contents of all new files before `ready`, the journal before the first rename, the
 * directories that were changed before `done` (durable.ts), and what was put back before `undone`. What was replaced was
 * synced by its own deployment, so undo does not depend on it. test/target/power-cut builds the states that may be left.
 */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { Refusal } from '../base/refusal.js'
import { disk, syncDirectory, type Disk } from './disk.js'
import type { HeldDirectory } from './held.js'
import { decodePath, deployIdOf, encodePath, helperOf, journalAt, journalVersion, type JournalFile, type JournalHelper } from './journal-file.js'
import { putBack } from './put-back.js'
import { holdTarget } from './reach.js'
import { findStaging, removeStaging, type FoundStaging, type Staging, type StagingSigns } from './staging.js'

export interface TimeLine { kind: 'T'; path: string; fromMs: number; toMs: number }

export type JournalLine =
  | { kind: 'D' | 'd' | 'n' | 'N'; path: string }
  | { kind: 'R'; path: string; aside: number }
  | TimeLine

/** Versions whose paths are not encoded. */
const plainVersions = new Set(['svc-undo 1', 'svc-undo 2'])
/** Text that is gathered before it is written. */
const batchLines = 2_000

/** The journal of an extraction in progress. */
export interface Journal {
  readonly file: JournalFile
  /** The staging directory was made, and has this mark. Reaches the disk with the list, before which nothing is moved. */
  staged(mark: string): void
  /** Writes and syncs the list of what is about to be done, before any of it is. */
  ready(lines: Iterable<JournalLine>): void
  /** Everything is in place: from here on nothing is undone. */
  done(): void
}

/** Begins the journal of an extraction into a target; on the disk when it returns. */
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

function formatLine(line: JournalLine): string {
  const path = encodePath(line.path)
  switch (line.kind) {
    case 'R': return `R ${line.aside} ${path}\n`
    case 'T': return `T ${line.fromMs} ${line.toMs} ${path}\n`
    default: return `${line.kind} ${path}\n`
  }
}

/** `pathOf` gives the path that a version's text stands for. */
function parseLine(text: string, pathOf: (text: string) => string): JournalLine {
  const kind = text.slice(0, 1) as JournalLine['kind']
  if (kind !== 'R' && kind !== 'T') return { kind, path: pathOf(text.slice(2)) }
  const first = text.indexOf(' ', 2)
  if (kind === 'R') return { kind, aside: Number(text.slice(2, first)), path: pathOf(text.slice(first + 1)) }
  const second = text.indexOf(' ', first + 1)
  const [fromMs, toMs] = [Number(text.slice(2, first)), Number(text.slice(first + 1, second))]
  return { kind, fromMs, toMs, path: pathOf(text.slice(second + 1)) }
}

/** Not 0, as in plain versions: NULs before the list, which a power cut may leave of a line, would not count. */
const sumSeed = 1

/** Sum over the text, enough to tell a torn list from a whole one; the count of lines does most of it. */
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

/** Null: not even its head is whole, so nothing was made yet. */
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
  // The last part has no end: it is torn, or empty.
  const last = parts.slice(end + 1, -1)
  const state = last.includes('undone') ? 'undone' : last.includes('done') ? 'done' : 'ready'
  return { ...found, state, lines: listed.map(line => parseLine(line, pathOf)) }
}

/** How an extraction that was cut short was brought to an end. */
export type Recovery =
  | 'untouched'   // nothing had been moved
  | 'put back'    // what had been moved was put back
  | 'complete'    // everything was in place
  | 'absent'      // the target is not there: it was removed, or its disk is missing, so nothing can be put back now
  | 'lost'        // the staging directory is gone or not ours, or the target is a file, so nothing can be put back

/** What the extraction itself still holds when it puts the target back: no name can lead it elsewhere. */
export interface StillHeld {
  root: HeldDirectory
  /** Null: its making failed, so there may be one or none. */
  staging: Staging | null
}

/**
 * Ends the extraction of a journal: the target becomes what it was, or stays complete. Removes the journal, unless there
 * is still something to be done: to record that it is `complete`, or to put back a target that is `absent`. Without
 * `held`, target and staging directory are looked for, and the latter must be the one that the extraction made. `settle`
 * is called while the journal is still there, for what has to be done before nobody remembers this extraction.
 */
export function recover(
  disk: Disk, file: JournalFile, held?: StillHeld, settle: (recovery: Recovery) => void = () => {}
): Recovery {
  const found = readJournal(file)
  let recovery: Recovery = 'untouched'
  if (found !== null) {
    const onUndone = (): void => sayUndone(file)
    if (held === undefined) recovery = recoverLater(disk, found, onUndone)
    else if (held.staging === null) recovery = recoverFound(disk, held.root, found, onUndone)
    else recovery = recoverIn(disk, held, found, onUndone)
  }
  settle(recovery)
  if (recovery !== 'complete' && recovery !== 'absent') file.remove()
  return recovery
}

function recoverLater(disk: Disk, found: Found, onUndone: () => void): Recovery {
  if (disk.lstatSync(found.target, { throwIfNoEntry: false }) === undefined) {
    return found.state === 'done' ? 'complete' : 'absent'
  }
  let root: HeldDirectory
  try {
    root = holdTarget(disk, found.target)
  } catch (error) {
    if (error instanceof Refusal && error.code === 'target_is_a_file') return found.state === 'done' ? 'complete' : 'lost'
    throw error
  }
  try {
    return recoverFound(disk, root, found, onUndone)
  } finally {
    root.close()
  }
}

function recoverFound(disk: Disk, root: HeldDirectory, found: Found, onUndone: () => void): Recovery {
  const staging = findStaging(disk, root, found)
  try {
    return recoverIn(disk, { root, staging }, found, onUndone)
  } finally {
    staging?.close()
  }
}

function recoverIn(
  disk: Disk,
  { root, staging }: { root: HeldDirectory; staging: Staging | FoundStaging | null },
  { deployId, state, lines }: Found,
  onUndone: () => void
): Recovery {
  if (state === 'ready') {
    if (staging === null) return 'lost'
    // Without `aside`, everything was put back before, and what is there by now is not svc's.
    if (disk.lstatSync(`${staging.path}/aside`, { throwIfNoEntry: false }) !== undefined) {
      putBack(disk, root, staging.path, lines)
      disk.renameSync(`${staging.path}/aside`, `${staging.path}/undone`)
    }
    // This directory was changed last, so all that was put back is on the disk with it (durable.ts).
    syncDirectory(disk, staging.path)
    onUndone()
  }
  if (staging !== null) {
    removeStaging(disk, root, deployId, staging)
    syncDirectory(disk, root.path)
  }
  return recoveries[state]
}

/** Without this line (the disk is full) only a kill within the next moment would make a difference: it would say `lost`. */
function sayUndone(file: JournalFile): void {
  try {
    // What a power cut left of the line `done` ends here.
    file.append(['\nundone\n'])
  } catch {
    // The target is what it was.
  }
}

const recoveries = { begun: 'untouched', ready: 'put back', undone: 'put back', done: 'complete' } as const

/** The journals in a directory, by deployment. */
export function listJournals(deployments: string): Array<{ deployId: string; path: string }> {
  const names = readdirSync(deployments).filter(name => name.endsWith('.undo'))
  return names.map(name => ({ deployId: deployIdOf(name), path: join(deployments, name) }))
}

/** What a journal says of whom it concerns; null when it is gone: another deployment may just have ended. */
export function describeJournal(path: string): { target: string | null; helper: JournalHelper | null } | null {
  try {
    const file = journalAt(disk, path)
    return { target: readJournal(file)?.target ?? null, helper: helperOf(file.read().text) }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}
