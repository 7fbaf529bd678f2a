/*
 * The ids of a log's events, and how a file is found again by one:
 *
 *   <bytes>@<file>;<checksum>;<time>                    the place up to which lines were sent
 *   <bytes>@<file>;<checksum>;<time>,<the same>         and the place in the file rotated away, while it is still read
 *   ,<bytes>@<file>;<checksum>;<time>                   only that, because no line of the current file was sent yet
 *
 * Clients treat an id as opaque text, but anybody can send one. So it only finds the log itself and its rotated files,
 * which are opened like every log, and only continues after bytes that have its checksum.
 */

import { basename, dirname, extname, join } from 'node:path'
import { type FileHandle, readdir, stat } from 'node:fs/promises'
import { Refusal } from '../../../base/errors.js'
import { contentsOf, type InflatedFiles, cutAfter, isBinary, newline, sampleBytes } from '../read/contents.js'
import { bytesBefore, Generation, type LogPlace } from '../read/generation.js'
import { birthOf, identityOf, type OpenedLog, type OpenLog } from '../read/open.js'
import { readAt } from '../../../base/files.js'

const form = /^(\d{1,15})@(\d{1,20}:\d{1,20});([0-9a-z]{1,7});([0-9a-z]{1,9})$/
/** Maximum number of rotated files that are opened to find one. */
const maxOpened = 16
/** File times may be this far behind the clock. */
const coarseMs = 100

/** Returns the id of an event after these places: of the current file, and of one rotated away. */
export function idOf(current: LogPlace | undefined, leaving: LogPlace | undefined): string {
  return `${current === undefined ? '' : textOf(current)}${leaving === undefined ? '' : `,${textOf(leaving)}`}`
}

function textOf({ offset, identity, mark, mtimeMs }: LogPlace): string {
  return `${offset}@${identity};${mark.toString(36)};${mtimeMs.toString(36)}`
}

/** Returns the places of an id: one or two. An id that no stream has sent: an empty list. */
export function placesOf(id: string): LogPlace[] {
  const found = id
    .replace(/^,/, '')
    .split(',', 3)
    .map(part => form.exec(part))
  if (found.length > 2) return []
  const places = found.flatMap(each => {
    if (each === null) return []
    const [, bytes, identity, mark, time] = each as unknown as [string, string, string, string, string]
    return [{ offset: Number(bytes), identity, mark: parseInt(mark, 36), mtimeMs: parseInt(time, 36) }]
  })
  return places.length === found.length ? places : []
}

export interface ResumeNeeds {
  openLog: OpenLog
  inflated: InflatedFiles
}

/**
 * Finds the file of a place among the rotated files of a log: by its identity, or by its bytes if it was copied or
 * compressed. Returns null if it no longer exists. The caller releases it.
 */
export async function findRotated(
  { openLog, inflated }: ResumeNeeds,
  { path, place, signal }: { path: string; place: LogPlace; signal: AbortSignal }
): Promise<Generation | null> {
  const listed = await listRotated(path)
  const moved = listed.filter(({ identity }) => identity === place.identity)
  // The oldest first: a younger one may begin with the same lines.
  const copies = listed
    .filter(each => !moved.includes(each) && place.offset > 0 && each.mtimeMs >= place.mtimeMs - coarseMs)
    .sort((one, other) => one.mtimeMs - other.mtimeMs)
  for (const { name } of [...moved, ...copies].slice(0, maxOpened)) {
    const found = await openLog(join(dirname(path), name))
      .then(async log => ({ log, contents: await contentsOf(log, inflated, signal) }))
      .catch(error => unlessRefused(error, signal))
    if (found === null) continue
    const { log, contents } = found
    const mark = await bytesBefore(contents, place).catch(() => null)
    const { offset, mtimeMs } = place
    if (mark !== null) return new Generation({ identity: log.identity, contents, offset, mark, mtimeMs })
    await contents.release()
  }
  return null
}

function unlessRefused(error: unknown, signal: AbortSignal): null {
  if (!(error instanceof Refusal) || signal.aborted) throw error
  return null
}

/*
 * The files that a log had between the one that was followed and the one that has its name now. A busy log is rotated
 * several times while its follower does not look, or waits for a client that does not read.
 *
 * Only files with the name of the log and a number or a date are considered. What is younger than the followed file and
 * older than the current one is between them:
 *
 *   app.log.2, app.log.2.gz             by number, which says how many rotations ago a file was the log
 *   app-20260131.log, app.1.log, …      by the times when they were made and last written
 */

/** Maximum number of files that are told at once. The others are a gap. */
const maxFiles = 64
/** How often the directory is listed, if files are renamed meanwhile. */
const maxTries = 4

/** Which files to find. */
export interface BetweenQuery {
  path: string
  /** The file that was followed, or the copy of it, and its last change. */
  after: { identity: string; mtimeMs: number }
  /** The file that has the name now, and when it was made. */
  before: { identity: string; birthMs: number }
  /** When `after` still had the name, on the clock of file times. */
  sinceMs: number
  /** Files that were told already. */
  told: ReadonlySet<string>
}

/** The files between two others. */
export interface Between {
  /** Open files, the oldest first. The caller closes them. */
  files: OpenedLog[]
  /** Whether one of them is missing, and how many bytes are known to be lost. */
  isGap: boolean
  lostBytes: number
}

/** A file that had the name of the log before. */
export interface Rotated {
  name: string
  identity: string
  size: number
  mtimeMs: number
  birthMs: number
  /** How many rotations ago it was the log; null: its name does not say. */
  number: number | null
}

/** Finds and opens the files between two others. */
export async function filesBetween(openLog: OpenLog, query: BetweenQuery): Promise<Between> {
  for (let tries = 1; ; tries++) {
    const { files, hasMissing } = await listBetween(query)
    const opened: OpenedLog[] = []
    let [isMoved, isGap, lostBytes] = [false, hasMissing || files.length > maxFiles, 0]
    for (const { name, identity, size } of files.slice(-maxFiles)) {
      const log = await openLog(join(dirname(query.path), name)).catch(refused)
      if (log === null) [isGap, lostBytes] = [true, lostBytes + size]
      else if (log === 'moved' || log.identity !== identity) {
        isMoved = true
        if (log !== 'moved') await log.handle.close()
      } else opened.push(log)
    }
    if (!isMoved || tries === maxTries) return { files: opened, isGap: isGap || isMoved, lostBytes }
    for (const { handle } of opened) await handle.close()
  }
}

function refused(error: unknown): 'moved' | null {
  if (!(error instanceof Refusal)) throw error
  return error.code === 'file_missing' ? 'moved' : null
}

async function listBetween({ path, after, before, sinceMs, told }: BetweenQuery) {
  const listed = await listRotated(path)
  const numberOf = (identity: string) => listed.find(each => each.identity === identity)?.number ?? null
  const [oldest, youngest] = [numberOf(after.identity), numberOf(before.identity) ?? 0]
  const isBetween = ({ identity, number, mtimeMs, birthMs }: Rotated): boolean => {
    if (identity === after.identity || identity === before.identity || told.has(identity)) return false
    if (number !== null && oldest !== null) return number < oldest && number > youngest
    const isYounger = mtimeMs >= after.mtimeMs && birthMs >= sinceMs - coarseMs
    return isYounger && (number === null ? birthMs <= before.birthMs : number > youngest)
  }
  const files = listed.filter(isBetween).sort(byAge)
  const numbered = files.filter(({ number }) => number !== null).length
  return { files, hasMissing: oldest !== null && numbered < oldest - youngest - 1 }
}

function byAge(one: Rotated, other: Rotated): number {
  if (one.number !== null && other.number !== null) return other.number - one.number
  return one.mtimeMs - other.mtimeMs || one.name.localeCompare(other.name, 'en', { numeric: true })
}

/** Lists the rotated files of a log, until two lists are the same: a rotation renames them one after the other. */
async function listRotated(path: string): Promise<Rotated[]> {
  let last = await listOnce(path)
  for (let tries = 1; tries < maxTries; tries++) {
    const next = await listOnce(path)
    const isSame = next.length === last.length && next.every(({ identity }, at) => identity === last[at]?.identity)
    if (isSame) return next
    last = next
  }
  return last
}

async function listOnce(path: string): Promise<Rotated[]> {
  const found: Rotated[] = []
  for (const name of (await readdir(dirname(path)).catch(() => [])).sort()) {
    const number = rotationOf(basename(path), name)
    if (number === undefined) continue
    const stats = await stat(join(dirname(path), name), { bigint: true }).catch(() => null)
    if (stats === null || !stats.isFile()) continue
    const birthMs = birthOf(stats)
    const [identity, size, mtimeMs] = [identityOf(stats), Number(stats.size), Number(stats.mtimeMs)]
    if (found.every(each => each.identity !== identity)) found.push({ name, identity, size, mtimeMs, birthMs, number })
  }
  return found
}

/** The end of a name that says when a file was rotated: digits, and what separates them. */
const stamp = /^[-_.](?=\D*\d)[-_.\dTZ:+]*$/

/**
 * Returns how many rotations ago a file was the log: null if its name does not say, undefined if it is no rotated file
 * of the log.
 */
export function rotationOf(log: string, name: string): number | null | undefined {
  const plain = name.replace(/\.(?:gz|bz2|xz|zst)$/i, '')
  if (name === log || plain === log) return undefined
  const number = plain.startsWith(`${log}.`) ? /^\d{1,4}$/.exec(plain.slice(log.length + 1)) : null
  if (number !== null) return Number(number[0])
  if (plain.startsWith(log)) return stamp.test(plain.slice(log.length)) ? null : undefined
  const extension = extname(log)
  const stem = log.slice(0, log.length - extension.length)
  if (extension === '' || !plain.startsWith(stem) || !plain.endsWith(extension)) return undefined
  return stamp.test(plain.slice(stem.length, plain.length - extension.length)) ? null : undefined
}

/*
 * Which bytes of a file a snapshot shows. Only the range is found here: its lines are read block by block as the client
 * takes them, so a snapshot of 5,000 lines costs no more memory than one of 5.
 */

/** Maximum size of a snapshot: 5,000 lines of an access log. */
const maxSnapshotBytes = 2 * 1024 * 1024
const blockBytes = 64 * 1024
/** Number of bytes by which a file is recognized later, see `Generation`. */
const markBytes = 256

/** The bytes of a file that a snapshot shows. */
export interface SnapshotRange {
  start: number
  end: number
  /** If the bytes are not text, none are shown, and `start` is `end`. */
  isBinary: boolean
  /** The last bytes before `start`. */
  mark: Buffer
}

/** A file, and the number of lines that its snapshot has at most. */
export interface SnapshotQuery {
  handle: FileHandle
  size: number
  maxLines: number
}

/** Returns the range of the first whole lines. At least one is shown. */
export async function rangeOfHead({ handle, size, maxLines }: SnapshotQuery): Promise<SnapshotRange> {
  let [end, count] = [0, 0]
  for (let at = 0; at < Math.min(size, maxSnapshotBytes); at += blockBytes) {
    const block = await readAt(handle, at, Math.min(blockBytes, size - at))
    for (let found = block.indexOf(newline); found !== -1; found = block.indexOf(newline, found + 1)) {
      end = at + found + 1
      if (++count >= maxLines) return await described(handle, { start: 0, end })
    }
  }
  return await described(handle, { start: 0, end })
}

/** Returns the range of the last lines, including text after the last newline. */
export async function rangeOfTail(query: SnapshotQuery): Promise<SnapshotRange> {
  return await described(query.handle, { start: await startOfTail(query), end: query.size })
}

async function startOfTail({ handle, size, maxLines }: SnapshotQuery): Promise<number> {
  if (maxLines === 0) return size
  let [at, missing] = [size, maxLines]
  let firstLine: number | null = null
  while (at > 0 && size - at < maxSnapshotBytes) {
    const from = Math.max(0, at - blockBytes)
    const block = await readAt(handle, from, at - from)
    // The newline at the end of the file does not begin a line.
    let found = at === size ? block.length - 1 : block.length
    while (found > 0 && (found = block.lastIndexOf(newline, found - 1)) !== -1) {
      firstLine = from + found + 1
      if (--missing === 0) return firstLine
    }
    at = from
  }
  if (at === 0) return 0
  // Too long: begin with the first whole line, or within a line that has no beginning within reach.
  return firstLine ?? at + cutAfter(await readAt(handle, at, Math.min(blockBytes, size - at)), 0)
}

async function described(handle: FileHandle, { start, end }: { start: number; end: number }): Promise<SnapshotRange> {
  const first = await readAt(handle, start, Math.min(sampleBytes, end - start))
  const restBytes = end - start - first.length
  const last = await readAt(handle, end - Math.min(sampleBytes, restBytes), Math.min(sampleBytes, restBytes))
  const binary = isBinary(Buffer.concat([first, last]))
  const shownFrom = binary ? end : start
  const mark = await readAt(handle, Math.max(0, shownFrom - markBytes), Math.min(shownFrom, markBytes))
  return { start: shownFrom, end, isBinary: binary, mark }
}
