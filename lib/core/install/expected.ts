/*
 * Holds a deployment to its plan. A plan remembers what it found at each path of its tree: a mark of 8 bytes for each
 * path, to name the path that differs, and the SHA-256 of all lines, to be sure. During staging, after everything was
 * read and before anything is renamed, the same is computed from what is in the target then; marks only if it differs.
 */
import { Refusal } from '../../base/errors.js'
import { sha256 } from '../../base/digests.js'
import { createContentsDigest, createTextDigest, type TreeDigest } from '../../model/manifest.js'
import { defaultFileMode, linkMode, type TreeEntry, treeLine } from '../../base/shared/tree-text.js'
import type { Disk } from './disk.js'
import type { Folders } from './held.js'
import type { Item, Records } from './plan.js'
import type { Reckoned } from './reckon.js'

/** What a plan wants, and what it found. It is plain data, for threads and helper processes. */
export interface Expected {
  /** When the plan was made, in milliseconds since 1970. */
  plannedAtMs: number
  /** One mark of 8 bytes for each path, in the order of `compareTreePaths`. */
  marks: Uint8Array
  /** What the marks are made of. Absent in plans of earlier versions: of the SHA-256 of each line. */
  marksOf?: 'found'
  /** The SHA-256 of what was found at all paths. */
  foundSha256: string
  /** Number of hex digits of each SHA-256 that `wantedSha256` covers. */
  digits: number
  /** The SHA-256 of what shall be there, of the digests that the plan was made from. */
  wantedSha256: string
  /** The SHA-256 of what shall be there, of all digits (`createContentsDigest`). */
  contentsSha256: string
  /** The SHA-256 of the paths that shall be removed, and of what was found there. */
  removedSha256: string
  /** One mark of 8 bytes for each of these paths. */
  removedMarks: Uint8Array
}

const markBytes = 8

/** A new entry. Its permissions are left out: an archive may lack them. With a group, that of the target counts, too. */
export type Wanted = Omit<TreeEntry, 'mode'> & Pick<Item, 'kind' | 'gid'>

type Found = Omit<TreeEntry, 'path'> & { gid: number }

interface Building {
  /** The SHA-256 of the contents; absent: that of the added entries. */
  contentsSha256?: string
  /** What the marks are made of; null: there are none. Default: of what was found. */
  marksOf?: 'found' | 'lines' | null
}

/** Creates a builder for digests of this number of hex digits. */
export function buildExpected(digits: number, { contentsSha256, marksOf = 'found' }: Building = {}) {
  const [marks, removedMarks] = [collectMarks(), collectMarks()]
  const [all, removed] = [createTextDigest(), createTextDigest()]
  const wanted = createContentsDigest(digits)
  const contents = contentsSha256 === undefined ? createContentsDigest() : null
  return {
    /** `found` is null if there is nothing at the path. */
    add({ kind, gid, path, size, sha256 }: Wanted, found: Found | null): void {
      const group = gid === undefined || found === null ? '' : `${found.gid} `
      const there = found === null ? `- ${path}\n` : lineOf(path, found)
      const line = `${group}${there}`
      all.add(line)
      const entry = { path, size, sha256, mode: kind === 'symlink' ? linkMode : defaultFileMode }
      wanted.add(entry)
      contents?.add(entry)
      if (marksOf === 'found') marks.add(markOf(found, group !== ''))
      else if (marksOf === 'lines') marks.add(markOfLine(line))
    },

    /** Adds a file that would be removed. */
    remove(found: TreeEntry): void {
      const line = lineOf(found.path, found)
      removed.add(line)
      removedMarks.add(markOfLine(line))
    },

    end: (plannedAtMs: number): Expected => ({
      plannedAtMs,
      marks: marks.end(),
      ...(marksOf === 'found' && { marksOf }),
      foundSha256: all.end(),
      digits,
      wantedSha256: wanted.end(),
      contentsSha256: contentsSha256 ?? (contents as TreeDigest).end(),
      removedSha256: removed.end(),
      removedMarks: removedMarks.end()
    })
  }
}

function lineOf(path: string, { mode, size, sha256 }: Omit<TreeEntry, 'path'>): string {
  return treeLine({ path, mode, size, sha256 })
}

/** The two words of a mark. */
type Mark = readonly [number, number]

const nothingFound: Mark = [0, 0]
const wordDigits = 8

/**
 * Returns the mark of what was found. It names the path that differs, and proves nothing: a hash of each line would take
 * a fifth of the time of a comparison. measured: bench/plan
 */
function markOf(found: Found | null, countsGroup: boolean): Mark {
  if (found === null) return nothingFound
  const { sha256, mode, gid } = found
  const word = (at: number): number => Number.parseInt(sha256.slice(at, at + wordDigits), 16)
  return [word(0), word(wordDigits) ^ mode ^ (countsGroup ? gid << 16 : 0)]
}

function markOfLine(line: string): Mark {
  const hash = sha256(line)
  return [hash.readUInt32BE(0), hash.readUInt32BE(4)]
}

const firstMarks = 1024

/** Collects marks in memory that doubles. */
function collectMarks(): { add(mark: Mark): void; end(): Uint8Array<ArrayBuffer> } {
  let marks = new Uint8Array(new ArrayBuffer(firstMarks * markBytes))
  let view = new DataView(marks.buffer)
  let at = 0
  return {
    add([first, second]) {
      if (at === marks.length) {
        marks = grown(marks)
        view = new DataView(marks.buffer)
      }
      view.setUint32(at, first)
      view.setUint32(at + 4, second)
      at += markBytes
    },
    end: () => marks.slice(0, at)
  }
}

function grown(marks: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  const larger = new Uint8Array(new ArrayBuffer(marks.length * 2))
  larger.set(marks)
  return larger
}

/** The findings of a staging. */
export interface StagedTarget {
  disk: Disk
  folders: Folders
  items: readonly Item[]
  /** The items in canonical order. */
  order: readonly number[]
  records: Records
  reckoned: Pick<Reckoned, 'removed' | 'kept'>
}

/**
 * Refuses (`conflict`) a deployment whose archive differs from its plan (tree_changed), or whose target does
 * (plan_outdated). Must be called before anything is renamed.
 */
export function refuseOutdated(expected: Expected, staged: StagedTarget): void {
  const { disk, folders, items, order } = staged
  const now = stateOf(staged, expected, null)
  if (now.wantedSha256 !== expected.wantedSha256 || now.contentsSha256 !== expected.contentsSha256) {
    const sentence = 'Nothing was changed: the archive does not contain the files of the plan. Plan again'
    throw new Refusal('conflict', 'tree_changed', sentence)
  }
  if (now.removedSha256 !== expected.removedSha256) throw otherRemovals(expected, now, staged)
  if (now.foundSha256 === expected.foundSha256) return
  const { marks } = stateOf(staged, expected, expected.marksOf ?? 'lines')
  const at = order.findIndex((_, at) => markAt(marks, at) !== markAt(expected.marks, at))
  const item = items[order[at] ?? -1]
  if (item === undefined) throw planOutdated(`files were changed, after the plan of ${utc(expected.plannedAtMs)}`)
  throw outdated(item.path, expected, timeAt(disk, folders, item.path))
}

/** Returns what a plan of the staged files would expect of the target as it is. */
function stateOf(
  { items, order, records, reckoned }: StagedTarget,
  { digits, plannedAtMs }: Expected,
  marksOf: 'found' | 'lines' | null
): Expected {
  const builder = buildExpected(digits, { marksOf })
  for (const index of order) {
    const { path, kind, size, gid } = items[index] as Item
    const digest = records.sha256(index).toString('hex')
    const before = records.before(index)
    const found = before === null ? null : { ...before, sha256: Buffer.from(before.sha256).toString('hex') }
    builder.add({ path, kind, size, sha256: digest, ...(gid !== undefined && { gid }) }, found)
  }
  for (const { path, before } of reckoned.removed) builder.remove({ ...before, path })
  return builder.end(plannedAtMs)
}

/** Maximum number of files that a refusal names. */
const maxNamed = 3

/** Names the first file that was edited and is therefore not removed, if there is one; else what the plan does not remove. */
function otherRemovals(expected: Expected, now: Expected, { disk, folders, reckoned }: StagedTarget): Refusal {
  const [edited] = reckoned.kept.files
  if (edited !== undefined) return outdated(edited.path, expected, timeAt(disk, folders, edited.path))
  const planned = new Set<string>()
  for (let at = 0; at * markBytes < expected.removedMarks.length; at++) planned.add(markAt(expected.removedMarks, at))
  const others = reckoned.removed.filter((_, at) => !planned.has(markAt(now.removedMarks, at))).map(({ path }) => path)
  const named = others.slice(0, maxNamed).map(path => `"${path}"`)
  const more = others.length > maxNamed ? ` and ${others.length - maxNamed} more` : ''
  const what =
    others.length === 0 ? 'files that the plan removes are gone' : `${named.join(', ')}${more} were added or changed`
  return planOutdated(`${what}, after the plan of ${utc(expected.plannedAtMs)}`)
}

function markAt(marks: Uint8Array, at: number): string {
  return Buffer.from(marks.buffer, marks.byteOffset + at * markBytes, markBytes).toString('latin1')
}

/** Returns the modification time of the entry at a path; null if there is none. */
function timeAt(disk: Disk, folders: Folders, path: string): number | null {
  try {
    return disk.lstatSync(folders.place(path), { throwIfNoEntry: false })?.mtimeMs ?? null
  } catch {
    return null
  }
}

/** The times of files come from a clock of the kernel that lags a little. */
const coarseMs = 20

function outdated(path: string, { plannedAtMs }: Expected, mtimeMs: number | null): Refusal {
  const when = mtimeMs !== null && mtimeMs >= plannedAtMs - coarseMs ? ` at ${utc(mtimeMs)}` : ''
  const how = mtimeMs === null ? 'was removed' : `was changed${when}`
  return planOutdated(`"${path}" ${how}, after the plan of ${utc(plannedAtMs)}`)
}

/** Returns the refusal of a deployment whose plan no longer applies. */
export function planOutdated(why: string): Refusal {
  return new Refusal('conflict', 'plan_outdated', `Nothing was changed: ${why}. Plan again`)
}

function utc(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19).replace('T', ' ')} UTC`
}
