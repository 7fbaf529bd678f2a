/*
 * The undo journal, and how a target is put back with it.
 *
 * One text file for each extraction, `<deployments>/<id>.undo`, outside the target, so that a start finds what was cut
 * short without looking into targets.
 *
 *   svc-undo 1                  format and version
 *   target <path>               the real path of the target
 *   (the staging directory is made only after these lines are on the disk)
 *   D <path>                    a new directory, to be moved into place with all that is in it
 *   d <path>  n <path>          … a directory, a file within it, so that undo removes these and nothing else
 *   N <path>                    a new file, to be moved into a directory that was there
 *   R <n> <path>                a file to be replaced; what was there is linked to `aside/<n>` first
 *   T <ms> <ms> <path>          a file whose time alone is to change, from the first to the second
 *   ready <lines> <crc>         end of the list. Before the first rename all of it is on the disk (fdatasync)
 *   done                        everything is in place, and that is on the disk too: only staging is left to remove
 *
 * What may be found:
 *   no `ready`, or a torn one   nothing has been moved: staging is removed.
 *   `ready`                     each line is undone if it was done, last first. Whether it was, the disk itself says:
 *                               what still lies in staging has not been moved, a file that has not the second time has
 *                               not got it, or has been changed since. So undoing may be cut short as well and be begun
 *                               again.
 *   `done`                      the deployment is complete: staging is removed.
 *
 * After a kill -9 the kernel has every call that was made, in order, so the above is exact. After a power cut it has
 * what reached the disk. The journal is synced before the first rename, and the target's directory is synced after the
 * last one, before `done` is written and synced, so that a `done` never outlives the renames it vouches for (a sync of
 * a directory makes the renames before it durable on ext4, xfs, btrfs, and apfs). Contents of files that the archive
 * brought are not synced one by one: 10,000 syncs cost more than the whole extraction. A power cut within the half
 * minute in which the kernel writes them back may leave new files empty after `done`, as after unzip or tar; the archive
 * is kept, and deploying it again cures it. What was replaced is old and on the disk, so undo does not depend on it.
 */
import { readFileSync, readdirSync } from 'node:fs'
import { basename, join } from 'node:path'
import { removeTree, syncDirectory, writeFully, type Disk } from './disk.js'
import { holdBelow, holdTarget, type HeldDirectory } from './guard.js'
import { parentOf } from './plan.js'
import { sameTimeMs, stagingName } from './stage.js'

export interface TimeLine { kind: 'T'; path: string; fromMs: number; toMs: number }

export type JournalLine =
  | { kind: 'D' | 'd' | 'n' | 'N'; path: string }
  | { kind: 'R'; path: string; aside: number }
  | TimeLine

const firstLine = 'svc-undo 1'
/** Text that is gathered before it is written. */
const batchLines = 2_000

/** The journal of an extraction in progress. */
export interface Journal {
  readonly path: string
  /** Writes and syncs the list of what is about to be done, before any of it is. */
  ready(lines: Iterable<JournalLine>): void
  /** Everything is in place: from here on nothing is undone. */
  done(): void
}

/** Begins a journal; on the disk when it returns. `deployments` is the directory of the journals. */
export function beginJournal(disk: Disk, deployments: string, deployId: string, target: string): Journal {
  const path = join(deployments, `${deployId}.undo`)
  append(disk, path, 'wx', [`${firstLine}\ntarget ${target}\n`])
  syncDirectory(disk, deployments)
  return {
    path,
    ready(lines) {
      append(disk, path, 'a', formatLines(lines))
    },
    done() {
      append(disk, path, 'a', ['done\n'])
    }
  }
}

function append(disk: Disk, path: string, flags: string, batches: Iterable<string>): void {
  const fd = disk.openSync(path, flags, 0o600)
  try {
    for (const batch of batches) writeFully(disk, fd, Buffer.from(batch))
    disk.fdatasyncSync(fd)
  } finally {
    disk.closeSync(fd)
  }
}

function* formatLines(lines: Iterable<JournalLine>): Generator<string> {
  let crc = 0
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
  switch (line.kind) {
    case 'R': return `R ${line.aside} ${line.path}\n`
    case 'T': return `T ${line.fromMs} ${line.toMs} ${line.path}\n`
    default: return `${line.kind} ${line.path}\n`
  }
}

function parseLine(text: string): JournalLine {
  const kind = text.slice(0, 1) as JournalLine['kind']
  if (kind !== 'R' && kind !== 'T') return { kind, path: text.slice(2) }
  const first = text.indexOf(' ', 2)
  if (kind === 'R') return { kind, aside: Number(text.slice(2, first)), path: text.slice(first + 1) }
  const second = text.indexOf(' ', first + 1)
  const [fromMs, toMs] = [Number(text.slice(2, first)), Number(text.slice(first + 1, second))]
  return { kind, fromMs, toMs, path: text.slice(second + 1) }
}

/** Sum over the text, enough to tell a torn list from a whole one; the count of lines does most of it. */
function checksum(text: string, seed: number): number {
  let sum = seed
  for (let i = 0; i < text.length; i++) sum = (Math.imul(sum, 31) + text.charCodeAt(i)) >>> 0
  return sum
}

interface Found {
  target: string
  state: 'begun' | 'ready' | 'done'
  lines: JournalLine[]
}

/** Null: not even its head is whole, so nothing was made yet. */
function readJournal(path: string): Found | null {
  const text = readFileSync(path, 'utf8')
  const parts = text.split('\n')
  if (parts[0] !== firstLine || !parts[1]?.startsWith('target ') || parts.length < 3) return null
  const target = parts[1].slice('target '.length)
  const end = parts.findIndex((part, i) => i >= 2 && part.startsWith('ready '))
  if (end === -1 || end === parts.length - 1) return { target, state: 'begun', lines: [] }
  const listed = parts.slice(2, end)
  const sum = checksum(listed.map(line => `${line}\n`).join(''), 0)
  if (parts[end] !== `ready ${listed.length} ${sum.toString(16)}`) return { target, state: 'begun', lines: [] }
  const state = parts[end + 1] === 'done' && parts.length > end + 2 ? 'done' : 'ready'
  return { target, state, lines: listed.map(parseLine) }
}

/** How an extraction that was cut short was brought to an end. */
export type Recovery =
  | 'untouched'   // nothing had been moved
  | 'put back'    // what had been moved was put back
  | 'complete'    // everything was in place
  | 'lost'        // the target or its staging directory is gone, so there is nothing to put back

/** Ends the extraction a journal tells of: the target becomes what it was, or stays complete. Removes the journal. */
export function recover(disk: Disk, journalPath: string): Recovery {
  const found = readJournal(journalPath)
  const deployId = idOf(journalPath)
  let recovery: Recovery = 'untouched'
  if (found !== null) {
    if (disk.lstatSync(found.target, { throwIfNoEntry: false }) === undefined) {
      recovery = 'lost'
    } else {
      const root = holdTarget(disk, found.target)
      try {
        recovery = recoverIn(disk, root, deployId, found)
      } finally {
        root.close()
      }
    }
  }
  disk.unlinkSync(journalPath)
  return recovery
}

function recoverIn(disk: Disk, root: HeldDirectory, deployId: string, found: Found): Recovery {
  const staging = `${root.path}/${stagingName(deployId)}`
  const hasStaging = disk.lstatSync(staging, { throwIfNoEntry: false }) !== undefined
  if (found.state === 'ready') {
    if (!hasStaging) return 'lost'
    undo(disk, root, staging, found.lines)
    syncDirectory(disk, root.path)
  }
  removeTree(disk, staging)
  return found.state === 'ready' ? 'put back' : found.state === 'done' ? 'complete' : 'untouched'
}

/** The lines `D`, `d` and `n` of one new directory. */
type NewTree = JournalLine[]

function undo(disk: Disk, root: HeldDirectory, staging: string, lines: readonly JournalLine[]): void {
  const exists = (path: string): boolean => disk.lstatSync(path, { throwIfNoEntry: false }) !== undefined
  const within = (path: string, use: (folder: string, name: string) => void): void => {
    if (!exists(`${root.path}/${parentOf(path)}`)) return
    const folder = holdBelow(disk, root, parentOf(path))
    try {
      use(folder.path, path.slice(path.lastIndexOf('/') + 1))
    } finally {
      folder.close()
    }
  }
  let tree: NewTree = []
  for (let i = lines.length - 1; i >= 0; i--) {
    const line = lines[i] as JournalLine
    const staged = `${staging}/files/${line.path}`
    if (line.kind === 'n' || line.kind === 'd') {
      tree.push(line)
    } else if (line.kind === 'D') {
      if (!exists(staged)) within(line.path, (folder, name) => removeNewTree(disk, `${folder}/${name}`, line, tree))
      tree = []
    } else if (line.kind === 'R') {
      const aside = `${staging}/aside/${line.aside}`
      if (exists(aside)) {
        within(line.path, (folder, name) => {
          if (!exists(staged) || !exists(`${folder}/${name}`)) moveIfThere(disk, aside, `${folder}/${name}`)
        })
      }
    } else if (line.kind === 'T') {
      // Looked at before it is held: where the folder is a link by now, there is nothing of ours to put back.
      if (gotTime(disk, `${root.path}/${line.path}`, line)) {
        within(line.path, (folder, name) => setTimeBack(disk, `${folder}/${name}`, line))
      }
    } else if (!exists(staged)) {
      within(line.path, (folder, name) => moveIfThere(disk, `${folder}/${name}`, staged))
    }
  }
}

function gotTime(disk: Disk, place: string, { toMs }: TimeLine): boolean {
  const stats = disk.lstatSync(place, { throwIfNoEntry: false })
  return stats !== undefined && stats.isFile() && Math.abs(stats.mtimeMs - toMs) < sameTimeMs
}

function setTimeBack(disk: Disk, place: string, { fromMs }: TimeLine): void {
  disk.lutimesSync(place, disk.lstatSync(place).atimeMs / 1000, fromMs / 1000)
}

function moveIfThere(disk: Disk, from: string, to: string): void {
  try {
    disk.renameSync(from, to)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
}

/**
 * Removes a new directory that had been moved into place: of its contents only what the archive brought. What somebody
 * else has put there since, and the directories around it, stay.
 */
function removeNewTree(disk: Disk, top: string, head: JournalLine, contents: NewTree): void {
  for (const { kind, path } of [...contents, head]) {
    const place = `${top}${path.slice(head.path.length)}`
    try {
      if (kind === 'n') disk.unlinkSync(place)
      else disk.rmdirSync(place)
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      if (code !== 'ENOENT' && code !== 'ENOTEMPTY' && code !== 'EEXIST' && code !== 'ENOTDIR') throw error
    }
  }
}

/** The journals in a directory, by deployment. */
export function listJournals(deployments: string): Array<{ deployId: string; path: string }> {
  const names = readdirSync(deployments).filter(name => name.endsWith('.undo'))
  return names.map(name => ({ deployId: idOf(name), path: join(deployments, name) }))
}

/** The target a journal is about; null when it is not whole, or gone: another deployment may just have ended. */
export function targetOf(journalPath: string): string | null {
  try {
    return readJournal(journalPath)?.target ?? null
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}

function idOf(journalPath: string): string {
  return basename(journalPath, '.undo')
}
