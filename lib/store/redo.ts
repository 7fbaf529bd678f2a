/**
 * The redo log: what was acknowledged since svc.db was written, as text.
 *
 *   svc.db.redo   = header line*  zeros          (the zeros are room reserved for later lines)
 *   header        = <crc> {"redo":1,"after":N}\n  every write past N is here; a svc.db that holds fewer is too old
 *   line          = <crc> {"first":N,"transactions":[[call, call …], …]}\n
 *   call          = [sql, value …]
 *   crc           = CRC-32 of the JSON text, 8 hex digits
 *
 * A line is one sync: all transactions that were waiting when it was written, numbered from N on without gaps. The next
 * line is only written once this one is on the disk, so a crash, of the process or of the machine, can spoil nothing
 * but the last. A line that does not check is torn when no other follows it, and then it was never acknowledged;
 * otherwise the file is damaged. What follows is never in doubt: JSON text holds no raw newline, and {"first": with
 * bare quotes stands only where a line begins.
 *
 * Values are JSON: text, number, null; bytes as {"base64": …}.
 */
import { crc32 } from '../base/crc32.js'
import { Refusal } from '../base/refusal.js'
import type { Value } from './database.js'

/** A statement and its bound values. */
export interface Call {
  sql: string
  values: readonly Value[]
}

export interface RedoLine {
  /** The number of its first transaction. */
  first: number
  transactions: Call[][]
}

export interface RedoContent {
  /** The writes up to here were in svc.db when this file was begun. */
  after: number
  lines: RedoLine[]
  /** Bytes of header and lines that check. */
  end: number
  /** Whether a torn line follows them. */
  torn: boolean
}

const format = 1
const newline = 10
const crcDigits = 8
const lineStart = '{"first":'

/** A transaction as the text that `encodeLine` joins. */
export function encodeTransaction(calls: Call[]): string {
  return JSON.stringify(calls.map(({ sql, values }) => [sql, ...values.map(encodeValue)]))
}

/** The line of transactions that were given by `encodeTransaction`. */
export function encodeLine(first: number, transactions: string[]): Buffer {
  return seal(`${lineStart}${first},"transactions":[${transactions.join(',')}]}`)
}

/** The first line of a redo log that follows a svc.db which holds the writes up to `after`. */
export function encodeHeader(after: number): Buffer {
  return seal(JSON.stringify({ redo: format, after }))
}

/** Reads a redo log. Refuses `redo_damaged`, `redo_newer`; `path` is for the sentence. */
export function readRedo(bytes: Uint8Array, path: string): RedoContent {
  const file = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const header = openLine(file, 0) as { value: { redo?: number; after?: number }; end: number } | null
  if (header === null || typeof header.value.redo !== 'number') throw damaged(path, 'its first line does not check')
  if (header.value.redo > format) {
    throw new Refusal('unsupported', 'redo_newer', `cannot open the database: "${path}" was written by a newer svc`)
  }
  const content: RedoContent = { after: header.value.after ?? 0, lines: [], end: header.end, torn: false }
  while (!isBlank(file.subarray(content.end))) {
    const line = openLine(file, content.end)
    if (line === null) {
      if (!isLast(file, content.end)) throw damaged(path, `the line at byte ${content.end} does not check`)
      content.torn = true
      break
    }
    content.lines.push(decodeLine(line.value as EncodedLine))
    content.end = line.end
  }
  return content
}

type EncodedValue = string | number | null | { base64: string }

interface EncodedLine {
  first: number
  transactions: Array<Array<[sql: string, ...values: EncodedValue[]]>>
}

function decodeLine({ first, transactions }: EncodedLine): RedoLine {
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

/** The value of the line at `from` and where the next begins; null where the line does not check. */
function openLine(file: Buffer, from: number): { value: unknown; end: number } | null {
  const end = file.indexOf(newline, from)
  if (end === -1) return null
  const json = file.subarray(from + crcDigits + 1, end)
  if (file.toString('latin1', from, from + crcDigits + 1) !== `${sumOf(json)} `) return null
  return { value: JSON.parse(json.toString('utf8')), end: end + 1 }
}

/** Whether nothing of another line follows the one at `from`, whose own end may be spoilt too. */
function isLast(file: Buffer, from: number): boolean {
  const end = file.indexOf(newline, from)
  if (end !== -1 && !isBlank(file.subarray(end + 1))) return false
  return file.indexOf(lineStart, from + crcDigits + 2) === -1
}

/** Whether nothing follows. A torn line may begin with zeros too, where its first block never reached the disk. */
function isBlank(rest: Buffer): boolean {
  return rest.length === 0 || (rest[0] === 0 && rest.equals(Buffer.alloc(rest.length)))
}

function damaged(path: string, how: string): Refusal {
  return new Refusal(
    'unavailable',
    'redo_damaged',
    `cannot open the database: "${path}" is damaged (${how}); it holds the latest writes, and nothing was changed`
  )
}
