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
import { readdir, stat } from 'node:fs/promises'
import { basename, dirname, extname, join } from 'node:path'
import { Refusal } from '../../base/errors.js'
import { birthOf, identityOf, type OpenedLog, type OpenLog } from '../read/open.js'

/** File times may be this far behind the clock. */
const coarseMs = 100
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
export async function listRotated(path: string): Promise<Rotated[]> {
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
