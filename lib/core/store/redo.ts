/**
 * The redo log: the acknowledged writes since svc.db was written, as text.
 *
 *   svc.db.redo   = header line*  zeros          (the zeros are room reserved for later lines)
 *   header        = <crc> {"redo":1,"after":N}\n  every write after N is here; a svc.db with fewer writes is too old
 *   line          = <crc> {"first":N,"transactions":[[call, call …], …]}\n
 *   call          = [sql, value …]
 *   crc           = CRC-32 of the JSON text, 8 hex digits
 *
 * A line is one sync: all transactions that were waiting when it was written, numbered from N on without gaps. A line
 * is written only after the previous one is on the disk, so a crash of the process or of the machine can damage only
 * the last line. If the checksum of a line is wrong and no other line follows, the line is torn and was never
 * acknowledged. If another line follows, the file is damaged. Whether one follows is never ambiguous: JSON text
 * contains no raw newline, and {"first": with bare quotes occurs only at the beginning of a line.
 *
 * Values are JSON: text, number, null; bytes as {"base64": …}.
 */
import { dirname } from 'node:path'
import { crc32 } from '../../base/digests.js'
import { isDiskFull, Refusal } from '../../base/errors.js'
import type { Call, Value } from './database.js'
import type { Disk, DiskFile } from './disk.js'

/** One line of the log: the transactions of one append. */
export interface LogLine {
  /** The number of its first transaction. */
  first: number
  transactions: Call[][]
}

/** The contents of a redo log. */
export interface RedoContent {
  /** The number of the last write in svc.db when this file was started. */
  after: number
  lines: LogLine[]
  /** Size of the header and the valid lines, in bytes. */
  end: number
  /** Whether a torn line follows them. */
  torn: boolean
}

const format = 1
const newline = 10
const crcDigits = 8
const lineStart = '{"first":'

/** Encodes a transaction as text for `encodeLine`. */
export function encodeTransaction(calls: Call[]): string {
  return JSON.stringify(calls.map(({ sql, values }) => [sql, ...values.map(encodeValue)]))
}

/** Encodes the line of transactions that `encodeTransaction` returned; the first one has the number `first`. */
export function encodeLine(first: number, transactions: string[]): Buffer {
  return seal(`${lineStart}${first},"transactions":[${transactions.join(',')}]}`)
}

/** Encodes the header of a redo log that follows a svc.db with the writes up to `after`. */
export function encodeHeader(after: number): Buffer {
  return seal(JSON.stringify({ redo: format, after }))
}

/** Reads a redo log; `path` is for error messages. Refuses `redo_damaged`, `redo_newer`. */
export function readRedo(bytes: Uint8Array, path: string): RedoContent {
  const file = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const header = openLine(file, 0) as { value: { redo?: number; after?: number }; end: number } | null
  if (header === null || typeof header.value.redo !== 'number')
    throw damaged(path, 'the checksum of its first line is wrong')
  if (header.value.redo > format) {
    throw new Refusal(
      'unsupported',
      'redo_newer',
      `Cannot open the database: "${path}" was written by a newer svc. Install that version again`
    )
  }
  const content: RedoContent = { after: header.value.after ?? 0, lines: [], end: header.end, torn: false }
  while (!isBlank(file.subarray(content.end))) {
    const line = openLine(file, content.end)
    if (line === null) {
      if (!isLast(file, content.end)) throw damaged(path, `the checksum of the line at byte ${content.end} is wrong`)
      content.torn = true
      break
    }
    content.lines.push(lineOf(line.value as EncodedLine))
    content.end = line.end
  }
  return content
}

/** Decodes a line as `encodeLine` returned it; null if its checksum is wrong. */
export function decodeLine(bytes: Uint8Array): LogLine | null {
  const line = openLine(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength), 0)
  return line === null || line.end !== bytes.length ? null : lineOf(line.value as EncodedLine)
}

type EncodedValue = string | number | null | { base64: string }

interface EncodedLine {
  first: number
  transactions: Array<Array<[sql: string, ...values: EncodedValue[]]>>
}

function lineOf({ first, transactions }: EncodedLine): LogLine {
  return {
    first,
    transactions: transactions.map(calls => calls.map(([sql, ...values]) => ({ sql, values: values.map(decodeValue) })))
  }
}

function encodeValue(value: Value): EncodedValue {
  return value instanceof Uint8Array ? { base64: Buffer.from(value).toString('base64') } : value
}

function decodeValue(value: EncodedValue): Value {
  return value !== null && typeof value === 'object' ? Buffer.from(value.base64, 'base64') : value
}

function seal(json: string): Buffer {
  const line = Buffer.from(`${'0'.repeat(crcDigits)} ${json}\n`)
  line.write(sumOf(line.subarray(crcDigits + 1, -1)), 0, 'latin1')
  return line
}

function sumOf(json: Uint8Array): string {
  return crc32(json).toString(16).padStart(crcDigits, '0')
}

/** Returns the value of the line at `from` and where the next one begins; null if the checksum is wrong. */
function openLine(file: Buffer, from: number): { value: unknown; end: number } | null {
  const end = file.indexOf(newline, from)
  if (end === -1) return null
  const json = file.subarray(from + crcDigits + 1, end)
  if (file.toString('latin1', from, from + crcDigits + 1) !== `${sumOf(json)} `) return null
  return { value: JSON.parse(json.toString('utf8')), end: end + 1 }
}

/** Returns whether no other line follows the one at `from`. The end of that line may be damaged too. */
function isLast(file: Buffer, from: number): boolean {
  const end = file.indexOf(newline, from)
  if (end !== -1 && !isBlank(file.subarray(end + 1))) return false
  return file.indexOf(lineStart, from + crcDigits + 2) === -1
}

/** Returns whether nothing follows. A torn line may begin with zeros too, if its first block never reached the disk. */
function isBlank(rest: Buffer): boolean {
  return rest.length === 0 || (rest[0] === 0 && rest.equals(Buffer.alloc(rest.length)))
}

function damaged(path: string, how: string): Refusal {
  return new Refusal(
    'unavailable',
    'redo_damaged',
    `Cannot open the database: "${path}", which contains the latest writes, is damaged (${how}). Nothing was changed`
  )
}

/*
 * The redo log file: lines are appended, and a checkpoint starts a new file.
 *
 * Room is reserved in advance by writing zeros, because a sync of bytes inside a file costs less than a sync that makes
 * it longer. `end` is where the last durable line ends. After a failed append, the contents after `end` are unknown:
 * they are cut off, and the cut is synced, before the next line is written. The same applies to a rename that could not
 * be synced.
 */

/** The open redo log. */
export type RedoFile = ReturnType<typeof openRedoFile>

interface RedoFileOptions {
  disk: Disk
  path: string
  /** Number of bytes that are known to be valid. */
  end: number
  /** Whether bytes follow `end` that must be cut off. */
  torn: boolean
}

const reserveBytes = 1024 * 1024

/** Opens a redo log. The file is not opened or changed before the first append. A new log begins with `restart`. */
export function openRedoFile(options: RedoFileOptions) {
  const { disk, path } = options
  let file: DiskFile | null = null
  let { end } = options
  let reserved = disk.size(path) ?? 0
  let mustCut = options.torn
  let mustSyncDirectory = false

  async function settle(): Promise<DiskFile> {
    file ??= await disk.open(path)
    if (mustCut) {
      await file.truncate(end)
      await file.sync()
      reserved = end
      mustCut = false
    }
    if (mustSyncDirectory) {
      await disk.syncDirectory(dirname(path))
      mustSyncDirectory = false
    }
    return file
  }

  async function writeAnew(fresh: DiskFile, after: number, from: number): Promise<{ end: number; reserved: number }> {
    const tail = end > from ? await (await settle()).read(from, end - from) : new Uint8Array()
    const start = Buffer.concat([encodeHeader(after), tail])
    await fresh.write(start, 0)
    const reserved = await reserve(fresh, start.length)
    await fresh.sync()
    return { end: start.length, reserved }
  }

  async function close(): Promise<void> {
    const open = file
    file = null
    await open?.close()
  }

  return {
    /** Size of the header and the durable lines, in bytes. */
    get end() {
      return end
    },

    /** Appends a line. Resolves when it is on the disk; if it rejects, the line is not part of the log. */
    async append(line: Uint8Array): Promise<void> {
      const into = await settle()
      const next = end + line.length
      mustCut = true
      await into.write(line, end)
      if (next > reserved) reserved = await reserve(into, next)
      await into.sync()
      mustCut = false
      end = next
    },

    /**
     * Starts a new file after a checkpoint that includes the writes up to `after`. The lines from byte `from` on are
     * kept.
     */
    async restart(after: number, from: number): Promise<void> {
      const fresh = await disk.create(`${path}.tmp`)
      let extent: { end: number; reserved: number }
      try {
        extent = await writeAnew(fresh, after, from)
        // Windows cannot rename over an open file.
        await close()
        await disk.rename(`${path}.tmp`, path)
      } catch (error) {
        await fresh.close()
        await disk.remove(`${path}.tmp`).catch(() => {})
        throw error
      }
      file = fresh
      ;({ end, reserved } = extent)
      mustCut = false
      mustSyncDirectory = true
      await settle()
    },
    close
  }
}

/**
 * Reserves room for later lines and returns its end. On a full disk it reserves nothing, so that a line that fits is
 * not refused.
 */
async function reserve(file: DiskFile, from: number): Promise<number> {
  try {
    await file.write(new Uint8Array(reserveBytes), from)
    return from + reserveBytes
  } catch (error) {
    if (!isDiskFull(error)) throw error
    return from
  }
}

/*
 * The redo log, wherever it is: a file beside svc.db, or keys in etcd that several hubs share
 * (cluster/etcd-log.ts). Both keep the same promises, which test/core/store/file-log.test.ts and
 * test/cluster/etcd-log.test.ts check.
 */

/**
 * A log of numbered transactions, without gaps.
 *
 * An append resolves when the line is durable. If it rejects with anything but `UnknownOutcome`, the line is not part
 * of the log and never will be. Appends do not overlap: the next begins after the last has ended.
 */
export interface RedoLog {
  /** Appends transactions that `encodeTransaction` returned; the first one has the number `first`. */
  append(first: number, transactions: string[]): Promise<void>
  /**
   * Hands over the transactions after number `after`, in lines and in order, those that are in the log and then each
   * new one. The first line may begin earlier than `after + 1`. Waits for `take`. Ends when the signal aborts, without
   * an error. Throws `Trimmed` if the log no longer contains them all.
   */
  follow(after: number, options: FollowOptions): Promise<void>
  /** Removes the lines whose transactions all have numbers up to `upTo`. Some of them may stay. */
  trim(upTo: number): Promise<void>
}

export interface FollowOptions {
  take: (line: LogLine) => void | Promise<void>
  signal: AbortSignal
}

/** The log did not say whether a line became part of it. It may turn up later. */
export class UnknownOutcome extends Error {
  constructor(cause: unknown) {
    super(`It is not known whether the line was written: ${(cause as Error).message}`, { cause })
    this.name = 'UnknownOutcome'
  }
}

/** The log begins after the transaction that was asked for. */
export class Trimmed extends Error {
  constructor(after: number, begin: number) {
    super(`The log begins after transaction ${begin}, and what follows ${after} was asked for`)
    this.name = 'Trimmed'
  }
}

/** The log ends before a transaction that the reader already has: it is an older copy, or another log. */
export class OlderLog extends Error {
  constructor(after: number, end: number) {
    super(`The log ends with transaction ${end}, and this database already has ${after}`)
    this.name = 'OlderLog'
  }
}

/** A value in etcd cannot be what a hub wrote: somebody else changed it, or it is damaged. */
export class DamagedLog extends Error {
  constructor(key: string, why: string) {
    super(`The value of "${key}" in etcd is damaged: ${why}`)
    this.name = 'DamagedLog'
  }
}

/** The log has another line at a place that the reader has applied: it was restored from an older copy, and then grew. */
export class DivergedLog extends Error {
  constructor(sequence: number) {
    super(`The log has another transaction ${sequence} than this database`)
    this.name = 'DivergedLog'
  }
}

/** The line after which this hub writes is gone or another one: the log was restored from an older copy meanwhile. */
export class LostLine extends Error {
  constructor(key: string) {
    super(`etcd was restored from an older snapshot: the last line of this hub, "${key}", is not in it`)
    this.name = 'LostLine'
  }
}

/** Another process writes the log now, so the line was not written. */
export class LostLeadership extends Error {
  constructor() {
    super('Another hub leads')
    this.name = 'LostLeadership'
  }
}

/*
 * The redo log in a file: the log of a server that is not in a cluster, and the copy of the log that each hub keeps beside
 * its svc.db.
 */

/** The redo log in a file. */
export interface FileLog extends RedoLog {
  /** Size of the header and the durable lines, in bytes. */
  readonly end: number
  /** Remembers where the log ends now, so that `trim` can cut exactly there. */
  mark(): void
  close(): Promise<void>
}

interface FileLogOptions {
  disk: Disk
  path: string
  /** Number of bytes that are known to be valid. */
  end: number
  /** Whether bytes follow `end` that must be cut off. */
  torn: boolean
  /** The number after which the file begins, and the number of its last transaction. */
  after: number
  last: number
}

interface Mark {
  /** The number of the last transaction before this place. */
  last: number
  end: number
}

/** Marks that are kept. A failed checkpoint leaves one. */
const maxMarks = 16

/** Opens a redo log. The file is not opened or changed before the first append. A new log begins with `trim`. */
export function openFileLog({ disk, path, end, torn, after, last }: FileLogOptions): FileLog {
  const file = openRedoFile({ disk, path, end, torn })
  let begin: Mark = { last: after, end: Math.min(end, encodeHeader(after).length) }
  let marks: Mark[] = []
  let latest: Mark = { last, end }
  const followers = new Set<() => void>()

  /** Takes over that the file begins after `upTo` now, with what followed byte `from`. */
  function move(upTo: number, from: number): void {
    begin = { last: upTo, end: encodeHeader(upTo).length }
    marks = marks.filter(({ end }) => end > from).map(({ last, end }) => ({ last, end: end - from + begin.end }))
    latest = { last: Math.max(latest.last, upTo), end: file.end }
  }

  /** Resolves when something was appended, or the signal aborts. */
  function appended(signal: AbortSignal): Promise<void> {
    return new Promise(resolve => {
      const wake = () => {
        followers.delete(wake)
        signal.removeEventListener('abort', wake)
        resolve()
      }
      followers.add(wake)
      signal.addEventListener('abort', wake)
    })
  }

  return {
    get end() {
      return file.end
    },
    mark() {
      marks = [...marks.slice(1 - maxMarks), latest]
    },
    async append(first, transactions) {
      await file.append(encodeLine(first, transactions))
      latest = { last: first + transactions.length - 1, end: file.end }
      for (const wake of followers) wake()
    },
    async follow(from, { take, signal }) {
      for (let at = from; !signal.aborted; ) {
        if (begin.last > at) throw new Trimmed(at, begin.last)
        if (latest.last === at) await appended(signal)
        else at = await readAfter(at, { take, signal })
      }
    },
    async trim(upTo) {
      const { end: from } = [begin, ...marks, latest].filter(({ last }) => last <= upTo).at(-1) ?? begin
      const before = file.end
      let isDone = false
      try {
        await file.restart(upTo, from)
        isDone = true
      } finally {
        // If the rename could not be synced, the file is the new one all the same.
        if (isDone || file.end !== before) move(upTo, from)
      }
    },
    close: () => file.close()
  }

  async function readAfter(after: number, { take, signal }: FollowOptions): Promise<number> {
    const { lines } = readRedo((disk.read(path) ?? Buffer.of()).subarray(0, latest.end), path)
    let at = after
    for (const { first, transactions } of lines) {
      const last = first + transactions.length - 1
      if (last <= at) continue
      if (signal.aborted) break
      await take({ first, transactions })
      at = last
    }
    return at
  }
}
