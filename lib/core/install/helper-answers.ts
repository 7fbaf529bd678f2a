/*
 * What svc accepts from the helper processes that work below targets with the rights of a project's user. This file is
 * the whole list: an answer has these fields with these types and limits, and everything else ends the process
 * (core/proc/helper-wire.ts). A value that svc can know by itself, such as the size of a file that it holds, is no part of
 * an answer.
 */

import { constants, readFileSync, type Stats } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { basename } from 'node:path'
import {
  checked,
  escapedLine,
  flag,
  integer,
  list,
  mapped,
  maxPathLength,
  multiline,
  nullable,
  object,
  oneOf,
  optional,
  type Read,
  reads
} from '../../base/fields.js'
import { invalid, Refusal } from '../../base/errors.js'
import { deploymentIdPattern, type FileEntry } from '../../model/manifest.js'
import { findingStates, planCheckNames, type PlanCounts, planKinds } from '../../model/plan.js'
import { matching, type ReadAnswer } from '../proc/helper-wire.js'
import { ownDescriptors, placeOfDescriptor } from '../../base/files.js'
import { type FoundProcess, isStillRunning } from '../proc/stop.js'
import { checkInside, maxListedEntries, type OpenedFile } from './browse.js'
import { displacedPrefix } from './before-images.js'
import { markBytes } from './look-again.js'
import type { Answer, HelpedJob } from './unpack/extract-threads.js'
import { holdTargetAsync, lookOnlyFlags } from './held.js'

/** Maximum number of paths in one list: an archive has at most 200,000 entries, and a tree as many that others put there. */
const maxPaths = 1_000_000
const maxPieces = 100_000
const maxNumber = Number.MAX_SAFE_INTEGER

/** A number or a size. File systems may report more than a whole number can be exact for. */
const count: Read<number> = reads({ type: 'number', minimum: 0 }, 1, (value, field) => {
  if (typeof value === 'number' && Number.isFinite(value) && value >= 0) return value
  throw invalid(field, `"${field}" must be a number from 0`)
})
/** A time, which may be before 1970. */
const finite: Read<number> = reads({ type: 'number' }, 0, (value, field) => {
  if (typeof value === 'number' && Number.isFinite(value)) return value
  throw invalid(field, `"${field}" must be a number`)
})
const code = matching(/^[a-z][a-z0-9_]{0,63}$/)
const sentence = escapedLine({ max: 20_000 })
const path = multiline({ min: 1, max: 2 * maxPathLength })
const digest = matching(/^[0-9a-f]{64}$/)
const id = matching(deploymentIdPattern)
const instant = matching(/^[+-]?\d{4,6}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
const trueOnly: Read<true> = reads({ type: 'boolean' }, true, (value, field) => {
  if (value === true) return value
  throw invalid(field, `"${field}" must be true`)
})
/** The name of one entry. */
const name = checked(multiline({ min: 1, max: 1024 }), text => (text.includes('/') ? 'it is a path' : null))

function bytes(maxBytes: number): Read<Uint8Array<ArrayBuffer>> {
  return reads({ type: 'string' }, '', (value, field) => {
    if (typeof value !== 'string' || value.length > Math.ceil(maxBytes / 3) * 4)
      throw invalid(field, `"${field}" must be at most ${maxBytes} bytes`)
    return new Uint8Array(Buffer.from(value, 'base64'))
  })
}

/** Reads a value of a job. The field is the name of the job in a message. */
function answering<T>(what: string, read: Read<T>): ReadAnswer<T> {
  return value => read(value, what)
}

/** The deployment that put a file in place; empty if none did. */
const since = matching(/^\w{0,80}$/)
const edits = nullable(
  object({ count, files: list(object({ path, since, isGone: optional(trueOnly) }), { max: 10_000 }) })
)
const extracted = object({
  kind: oneOf(['extracted']),
  extracted: object({
    fileCount: count,
    changedCount: count,
    modeCount: count,
    removedCount: count,
    changes: list(bytes(maxNumber), { max: maxPieces }),
    bytes: count,
    treeSha256: nullable(digest),
    replaced: edits,
    kept: edits,
    beforeFrom: list(id, { max: 10_000 }),
    beforeBytes: count
  })
})

const recovered = object({
  kind: oneOf(['recovered']),
  recovery: oneOf(['untouched', 'put back', 'complete', 'held', 'reverted', 'absent', 'lost']),
  displaced: nullable(
    object({
      directory: checked(name, text => (text.startsWith(displacedPrefix) ? null : 'it is another directory')),
      paths: list(path, { max: 1000 }),
      count,
      notBack: optional(list(path, { max: 1000 }))
    })
  )
})

const counts = object(Object.fromEntries(planKinds.map(kind => [kind, count]))) as unknown as Read<PlanCounts>
const paths = list(path, { max: maxPaths })
const compared = object({
  kind: oneOf(['compared']),
  compared: object({
    treeSha256: digest,
    counts,
    paths: object({
      added: paths,
      changed: paths,
      timeOnly: paths,
      unchanged: paths,
      kept: paths,
      pruned: paths,
      drifted: list(
        object({
          path,
          owned: digest,
          found: nullable(digest),
          mtime: nullable(instant),
          size: nullable(count),
          since: id,
          overwritten: flag
        }),
        { max: maxPaths }
      ),
      foreign: paths,
      unowned: list(object({ path, size: count }), { max: maxPaths }),
      protected: list(object({ path, size: count, glob: sentence }), { max: maxPaths }),
      conflicts: list(object({ path, code, message: sentence }), { max: maxPaths }),
      truncated: flag
    }),
    bytes: object({ changed: count, extracted: count, diskNeeded: count, diskFree: nullable(count) }),
    checks: list(
      object({
        name: oneOf(planCheckNames),
        ok: flag,
        code: optional(code),
        message: optional(sentence),
        paths: optional(list(path, { max: 1000 }))
      }),
      { max: 100 }
    ),
    expected: nullable(
      object({
        plannedAtMs: count,
        marks: bytes(maxPaths * 8),
        marksOf: optional(oneOf(['found'])),
        foundSha256: digest,
        digits: integer(1, 64),
        wantedSha256: digest,
        contentsSha256: digest,
        removedSha256: digest,
        removedMarks: bytes(maxPaths * 8)
      })
    )
  })
})

const plainFound = object({ kind: oneOf(['found']), found: object({ is: oneOf(['unreachable', 'absent', 'other']) }) })
const foundFile = (readBytes: number) =>
  object({
    kind: oneOf(['found']),
    found: object({
      is: oneOf(['file']),
      sha256: digest,
      size: count,
      contents: nullable(bytes(readBytes)),
      isRemoved: flag
    })
  })

const bits = integer(0, 0xffffffff)
const now = nullable(
  object({ mode: bits, size: count, sha256: digest, mtimeMs: finite, ino: count, gid: optional(bits) })
)

/** Returns the reader of the answer to a job on a target. */
export function answerTo(job: HelpedJob): ReadAnswer<Answer> {
  switch (job.kind) {
    case 'extract':
      return answering<Answer>('extract', extracted)
    case 'recover':
      return answering<Answer>('recover', recovered)
    case 'compare':
      return answering<Answer>('compare', compared as Read<Answer>)
    case 'file': {
      const file = foundFile(job.file.readBytes ?? 0)
      const isFile = (value: unknown): boolean => (value as { found?: { is?: unknown } } | null)?.found?.is === 'file'
      return value => (isFile(value) ? file(value, 'file') : plainFound(value, 'file')) as Answer
    }
    case 'verify': {
      const { length } = job.verify.entries
      const finding = object({ index: integer(0, length - 1), state: oneOf(findingStates) })
      return answering<Answer>(
        'verify',
        object({ kind: oneOf(['verified']), findings: list(finding, { max: length }) })
      )
    }
    case 'mark':
      return answering<Answer>('mark', object({ kind: oneOf(['marked']), marks: bytes(maxPaths * markBytes) }))
    case 'look': {
      const { length } = job.look.entries
      const looked = object({ index: integer(0, length - 1), now, kept: oneOf(['scripted', 'none', 'before']) })
      return answering<Answer>('look', object({ kind: oneOf(['looked']), looked: list(looked, { max: length }) }))
    }
  }
}

/** Nothing, or a value that svc does not use. */
export const nothing: ReadAnswer<void> = () => {}

/** The entries of a directory. */
export const listedEntries: ReadAnswer<FileEntry[]> = answering(
  'list',
  list(object({ name, path, isDir: flag, isHidden: flag, size: count, mtime: instant }), { max: maxListedEntries })
)

/** The number of the descriptor of an open file. */
export const openDescriptor: ReadAnswer<number> = answering('open', integer(0, 1_048_576))

/** The sizes of this number of targets. */
export function measuredSizes(targets: number): ReadAnswer<Array<number | null>> {
  return answering('measure', list(nullable(count), { min: targets, max: targets }))
}

/** Whether something was packed, and what was not. svc measures the file itself. */
export const packingResult: ReadAnswer<{ bytes: number; note: string | null }> = answering(
  'pack',
  object({ bytes: count, note: nullable(mapped(multiline({ max: maxNumber }), text => text.slice(0, 100_000))) })
)

/*
 * Takes over a file that a helper process has opened. svc itself may lack the rights for the path, so it opens the
 * descriptor of the process again through /proc, not a path.
 *
 * The process only says the number. What that descriptor is, svc finds out from the kernel: a regular file within the
 * target, which the process has open for reading. A descriptor that was opened without permission to read (O_PATH) would
 * otherwise give its owner every file that svc may read.
 */

/** Which file is taken over. */
export interface TakenFile {
  /** The deployPath of the project. */
  target: string
  /** The path that was asked for, relative to the target. It is part of the messages. */
  path: string
  /** The number of the descriptor in the process. */
  fd: number
}

const readingFlags = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0)

/**
 * Opens the file for reading. Refuses: 403 outside_target, not_readable; 400 not_a_file; 409 changed_meanwhile. The
 * receiver must close it.
 */
export async function takeOver({ target, path, fd }: TakenFile, process: FoundProcess): Promise<OpenedFile> {
  const changed = (): Refusal =>
    new Refusal('conflict', 'changed_meanwhile', `"${path}" changed while it was being opened. Try again`)
  const held = await holdTargetAsync(target)
  try {
    // From here on it is one file, whatever the process does with its descriptor.
    const found = await open(`/proc/${process.pid}/fd/${fd}`, lookOnlyFlags).catch(() => {
      throw changed()
    })
    try {
      const stats = await found.stat()
      if (!stats.isFile()) throw new Refusal('invalid', 'not_a_file', `Cannot show "${path}": not a regular file`)
      const real = placeOfDescriptor(found.fd) ?? ''
      checkInside(held.real, real, path)
      if (!mayRead({ found, stats, fd }, process))
        throw new Refusal('forbidden', 'not_readable', `Cannot open "${path}": permission denied`)
      // All of this was about the process that svc has started, and not about a later one with its number.
      if (!isStillRunning(process)) throw changed()
      const handle = await open(`${ownDescriptors}/${found.fd}`, readingFlags)
      return { handle, path: real, name: basename(real), size: stats.size, mtimeMs: stats.mtimeMs }
    } finally {
      await found.close()
    }
  } finally {
    held.close()
  }
}

interface Found {
  found: FileHandle
  stats: Stats
  fd: number
}

const accessMode = 3
const readingModes = [constants.O_RDONLY, constants.O_RDWR]
const pathOnly = 0o10000000

/** Whether the process has the file open for reading. */
function mayRead({ found, stats, fd }: Found, { pid }: FoundProcess): boolean {
  const theirs = infoOf(`/proc/${pid}/fdinfo/${fd}`)
  const own = infoOf(`/proc/self/fdinfo/${found.fd}`)
  if (theirs === null || own === null) return false
  if ((theirs.flags & pathOnly) !== 0 || !readingModes.includes(theirs.flags & accessMode)) return false
  // Linux before 5.14 does not say which file it is, so it may be another one by now.
  if (own.inode === undefined) return grantsReading(stats, pid)
  return theirs.inode === own.inode && theirs.mount === own.mount
}

/** What the kernel says about a descriptor in one reading (proc(5)). */
function infoOf(path: string): { flags: number; mount: string | undefined; inode: string | undefined } | null {
  try {
    const text = readFileSync(path, 'latin1')
    const field = (name: string): string | undefined => new RegExp(`^${name}:\\s*(\\w+)$`, 'm').exec(text)?.[1]
    return { flags: Number.parseInt(field('flags') ?? '', 8), mount: field('mnt_id'), inode: field('ino') }
  } catch {
    return null
  }
}

/** Whether the permission bits of the file let the user of the process read it. Access control lists are left out. */
function grantsReading({ uid, gid, mode }: Stats, pid: number): boolean {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'latin1')
    const numbers = (name: string): number[] =>
      (new RegExp(`^${name}:\\s*([\\d\\s]*?)$`, 'm').exec(status)?.[1] ?? '').split(/\s+/).map(Number)
    if (numbers('Uid')[1] === uid) return (mode & constants.S_IRUSR) !== 0
    const isInGroup = numbers('Gid')[1] === gid || numbers('Groups').includes(gid)
    return (mode & (isInGroup ? constants.S_IRGRP : constants.S_IROTH)) !== 0
  } catch {
    return false
  }
}
