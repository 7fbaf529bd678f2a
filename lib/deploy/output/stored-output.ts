/*
 * The stored output of a deployment, `deployments/<id>.log`. Each line is `<time> <text>\n`; the time is ISO 8601 with
 * milliseconds, always 24 characters. Offsets are bytes of this file. A reader resumes at an offset after a newline.
 * Text after the last newline is a line that is still being written, and no reader gets it. Instead of a file that is
 * lost, readers get one line that says so.
 */
import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import { basename, dirname } from 'node:path'
import type { OutputLine } from '../../model/deployment.js'
import { readAt } from '../../base/files.js'
import { hasCode, reasonOf } from '../../base/errors.js'

/** A stored line and the byte offset after it. */
export interface StoredLine {
  line: OutputLine
  nextOffset: number
}

/** Whole stored lines and their byte offset in the file. */
export interface StoredBlock {
  bytes: Buffer
  offset: number
  /** Whether the file is lost, and the line only says so. */
  isLost?: boolean
}

const newline = 10
const timeLength = 24
const prefixLength = timeLength + 1
/** Bytes read at once. Also the memory of a reader whose consumer is slow. */
const blockBytes = 64 * 1024
/** Maximum block size when searching for the end of an output. */
const maxTailBlockBytes = 256 * 1024

/** Formats one line as it is stored. */
export function storedLine(at: string, text: string): string {
  return `${at} ${text}\n`
}

/** Returns the size of a stored line in bytes. An empty line takes space, too. */
export function storedBytes(text: string): number {
  return prefixLength + Buffer.byteLength(text) + 1
}

/** Yields the lines present now, in blocks of whole lines. */
export async function* readBlocks(path: string): AsyncGenerator<StoredBlock> {
  const source = await openSource(path)
  try {
    let block = await blockAt(source, 0, Infinity)
    while (block !== null) {
      yield block
      block = await blockAt(source, block.offset + block.bytes.length, Infinity)
    }
  } finally {
    await source.close()
  }
}

/**
 * Returns the next lines from the start of a line, none beyond `end`, or null if there are none. A reader that has lines
 * of a lost file, or whose lines are still in memory, gets null.
 */
export async function readBlock(path: string, offset: number, end: number): Promise<StoredBlock | null> {
  const source = await openSource(path)
  try {
    if (source.isLost && (offset > 0 || end !== Infinity)) return null
    return await blockAt(source, offset, end)
  } finally {
    await source.close()
  }
}

/** Returns `offset` if a line begins there, else 0: clients may send any number. */
export async function checkedOffset(path: string, offset: number): Promise<number> {
  if (!Number.isSafeInteger(offset) || offset <= 0) return 0
  const source = await openSource(path)
  try {
    return (await source.read(offset - 1, 1))[0] === newline ? offset : 0
  } finally {
    await source.close()
  }
}

async function blockAt(source: Source, offset: number, end: number): Promise<StoredBlock | null> {
  let bytes: Buffer = Buffer.alloc(0)
  for (;;) {
    const at = offset + bytes.length
    const more = await source.read(at, Math.min(blockBytes, end - at))
    if (more.length === 0) return null
    const lineEnd = more.lastIndexOf(newline) + 1
    if (lineEnd > 0) return { bytes: joined(bytes, more.subarray(0, lineEnd)), offset, isLost: source.isLost }
    bytes = joined(bytes, more)
  }
}

function joined(one: Buffer, other: Buffer): Buffer {
  return one.length === 0 ? other : Buffer.concat([one, other])
}

/** Yields the lines of a block. */
export function* linesOf({ bytes, offset }: StoredBlock): Generator<StoredLine> {
  for (let start = 0; start < bytes.length; ) {
    const end = bytes.indexOf(newline, start)
    const line = {
      at: bytes.toString('latin1', start, start + timeLength),
      text: bytes.toString('utf8', start + prefixLength, end)
    }
    start = end + 1
    yield { line, nextOffset: offset + start }
  }
}

/** Yields the whole output as it is now, with or without times. */
export async function* readText(path: string, { timestamps = false } = {}): AsyncGenerator<Buffer> {
  for await (const { bytes } of readBlocks(path)) yield timestamps ? bytes : withoutTimes(bytes)
}

/** Selects lines: those from an offset on, those before an offset, or the last ones. */
export interface WantedWindow {
  from?: number | undefined
  before?: number | undefined
  /** Maximum size of the stored lines, in bytes. */
  maxBytes: number
  timestamps?: boolean
}

/** A part of the text and the byte offsets of its stored lines. */
export interface OutputWindow {
  text: Buffer
  from: number
  to: number
}

/**
 * Returns a window of whole lines. An offset within a line is moved to its start. A line longer than the window is
 * returned alone.
 */
export async function readWindow(path: string, wanted: WantedWindow): Promise<OutputWindow> {
  const source = await openSource(path)
  try {
    const { from, before, maxBytes, timestamps = false } = wanted
    const size = await source.size()
    const { bytes, offset } =
      from === undefined
        ? await readBefore(source, await lineStart(source, Math.min(before ?? size, size)), maxBytes)
        : await readForward(source, await lineStart(source, Math.min(from, size)), maxBytes)
    return { text: timestamps ? bytes : withoutTimes(bytes), from: offset, to: offset + bytes.length }
  } finally {
    await source.close()
  }
}

/** Returns the lines that end at `end`, as many as fit. */
async function readBefore(source: Source, end: number, maxBytes: number): Promise<StoredBlock> {
  const start = await lineStart(source, Math.max(0, end - maxBytes))
  const bytes = await source.read(start, end - start)
  const next = bytes.length <= maxBytes ? 0 : bytes.indexOf(newline) + 1
  return next === bytes.length ? { bytes, offset: start } : { bytes: bytes.subarray(next), offset: start + next }
}

/** Returns the lines that begin at `offset`, as many as fit, but at least one. */
async function readForward(source: Source, offset: number, maxBytes: number): Promise<StoredBlock> {
  let bytes = await source.read(offset, maxBytes)
  for (;;) {
    const end = bytes.lastIndexOf(newline) + 1
    if (end > 0) return { bytes: bytes.subarray(0, end), offset }
    const more = await source.read(offset + bytes.length, blockBytes)
    if (more.length === 0) return { bytes: more, offset }
    const next = more.indexOf(newline) + 1
    bytes = Buffer.concat([bytes, next === 0 ? more : more.subarray(0, next)])
  }
}

/** Returns the start of the line that contains this byte. */
async function lineStart(source: Source, offset: number): Promise<number> {
  for (let end = offset; end > 0; ) {
    const start = Math.max(0, end - blockBytes)
    const found = (await source.read(start, end - start)).lastIndexOf(newline)
    if (found !== -1) return start + found + 1
    end = start
  }
  return 0
}

/** The end of an output. */
export interface OutputTail {
  text: string
  /** Whether there is more before it. */
  truncated: boolean
  /** Whether the file is lost, and the text only says so. */
  lost: boolean
}

/** How much of an output to return, and whether with times. */
interface WantedTail {
  maxBytes: number
  timestamps?: boolean
}

/** Returns the last `maxBytes` of the text, from the start of a line if one fits. */
export async function readTail(path: string, wanted: WantedTail): Promise<OutputTail> {
  const source = await openSource(path)
  try {
    return await tailOf(source, wanted)
  } catch (error) {
    // A list of records must not fail because the disk cannot read one of them.
    if (source.isLost || (error as NodeJS.ErrnoException).syscall === undefined) throw error
    return await tailOf(lostSource(path, error), wanted)
  } finally {
    await source.close()
  }
}

async function tailOf(source: Source, { maxBytes, timestamps = false }: WantedTail): Promise<OutputTail> {
  const lost = source.isLost
  const pieces: Buffer[] = []
  let textBytes = 0
  for await (const block of readBackwards(source, Math.min(2 * maxBytes, maxTailBlockBytes))) {
    const piece = timestamps ? block : withoutTimes(block)
    pieces.unshift(piece)
    textBytes += piece.length
    if (textBytes > maxBytes) break
  }
  const text = Buffer.concat(pieces, textBytes)
  if (textBytes <= maxBytes) return { text: text.toString(), truncated: false, lost }
  return { text: text.toString('utf8', headCut(text, textBytes - maxBytes)), truncated: true, lost }
}

/** Yields blocks of whole lines, the last one first. */
async function* readBackwards(source: Source, wantedBytes: number): AsyncGenerator<Buffer> {
  let end = await source.size()
  let held: Buffer = Buffer.alloc(0)
  let isLast = true
  while (end > 0) {
    const start = Math.max(0, end - wantedBytes)
    let bytes = Buffer.concat([await source.read(start, end - start), held])
    end = start
    if (isLast) bytes = bytes.subarray(0, bytes.lastIndexOf(newline) + 1)
    isLast &&= bytes.length === 0
    const cut = start === 0 ? 0 : bytes.indexOf(newline) + 1
    held = bytes.subarray(0, cut === 0 && start > 0 ? bytes.length : cut)
    if (held.length < bytes.length) yield bytes.subarray(held.length)
  }
}

/** Returns where a text can be cut at `from` or after: at the start of a line, or else of a character. */
function headCut(text: Buffer, from: number): number {
  const line = text.indexOf(newline, from - 1) + 1
  if (line > 0 && line < text.length) return line
  let cut = from
  while (cut < text.length && ((text[cut] as number) & 0xc0) === 0x80) cut++
  return cut
}

/** Removes the times from whole stored lines. */
function withoutTimes(bytes: Buffer): Buffer {
  const bare = Buffer.allocUnsafe(bytes.length)
  let length = 0
  for (let start = 0; start < bytes.length; ) {
    const end = bytes.indexOf(newline, start) + 1
    length += bytes.copy(bare, length, Math.min(start + prefixLength, end - 1), end)
    start = end
  }
  return bare.subarray(0, length)
}

/** What the readers read: the file of an output, or the line instead of it. */
interface Source {
  readonly isLost: boolean
  size(): Promise<number>
  /** Returns fewer bytes only at the end. */
  read(position: number, length: number): Promise<Buffer>
  close(): Promise<void>
}

async function openSource(path: string): Promise<Source> {
  try {
    // Without O_NONBLOCK, a pipe of this name would wait for its writer.
    const handle = await open(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0))
    if ((await handle.stat()).isFile())
      return {
        isLost: false,
        size: async () => (await handle.stat()).size,
        read: (position, length) => readAt(handle, position, length),
        close: () => handle.close()
      }
    await handle.close()
  } catch (error) {
    return lostSource(path, error)
  }
  return lostSource(path, null)
}

/** Returns a line instead of an output: why it cannot be read. `error` is null if something else has its name. */
function lostSource(path: string, error: unknown): Source {
  const name = `${basename(dirname(path))}/${basename(path)}`
  const why =
    error === null
      ? `the output is lost: "${name}" in the data directory is not a file`
      : hasCode(error, 'ENOENT')
        ? `the output is lost: "${name}" is missing in the data directory`
        : `the output cannot be read: "${name}" in the data directory: ${reasonOf(error)}`
  const bytes = Buffer.from(storedLine(new Date().toISOString(), `→ ${why}`))
  return {
    isLost: true,
    size: () => Promise.resolve(bytes.length),
    read: (position, length) => Promise.resolve(bytes.subarray(position, position + length)),
    close: () => Promise.resolve()
  }
}
