/*
 * The stored output of a deployment, `deployments/<id>.log`. Each line is `<time> <text>\n`; the time is ISO 8601 with
 * milliseconds, always 24 characters. Offsets are bytes of this file. A reader resumes at an offset after a newline.
 * Text after the last newline is a line that is still being written, and no reader gets it.
 */
import { open, type FileHandle } from 'node:fs/promises'
import type { OutputLine } from '../../model/deployment.js'
import { readAt } from '../../base/files.js'
import { nullIfMissing } from '../../base/errors.js'

/** A stored line and the byte offset after it. */
export interface StoredLine {
  line: OutputLine
  nextOffset: number
}

/** Whole stored lines and their byte offset in the file. */
export interface StoredBlock {
  bytes: Buffer
  offset: number
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

/** Yields the lines present now, in blocks of whole lines. A missing file yields nothing. */
export async function* readBlocks(path: string): AsyncGenerator<StoredBlock> {
  const handle = await openIfThere(path)
  if (handle === null) return
  try {
    let block = await blockAt(handle, 0, Infinity)
    while (block !== null) {
      yield block
      block = await blockAt(handle, block.offset + block.bytes.length, Infinity)
    }
  } finally {
    await handle.close()
  }
}

/** Returns the next lines from the start of a line, none beyond `end`, or null if there are none or no file. */
export async function readBlock(path: string, offset: number, end: number): Promise<StoredBlock | null> {
  const handle = await openIfThere(path)
  if (handle === null) return null
  try {
    return await blockAt(handle, offset, end)
  } finally {
    await handle.close()
  }
}

/** Returns `offset` if a line begins there, else 0: clients may send any number. */
export async function checkedOffset(path: string, offset: number): Promise<number> {
  if (!Number.isSafeInteger(offset) || offset <= 0) return 0
  const handle = await openIfThere(path)
  if (handle === null) return 0
  try {
    return (await readAt(handle, offset - 1, 1))[0] === newline ? offset : 0
  } finally {
    await handle.close()
  }
}

async function blockAt(handle: FileHandle, offset: number, end: number): Promise<StoredBlock | null> {
  let bytes: Buffer = Buffer.alloc(0)
  for (;;) {
    const at = offset + bytes.length
    const more = await readAt(handle, at, Math.min(blockBytes, end - at))
    if (more.length === 0) return null
    const lineEnd = more.lastIndexOf(newline) + 1
    if (lineEnd > 0) return { bytes: joined(bytes, more.subarray(0, lineEnd)), offset }
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
 * returned alone. A missing file is empty.
 */
export async function readWindow(path: string, wanted: WantedWindow): Promise<OutputWindow> {
  const handle = await openIfThere(path)
  if (handle === null) return { text: Buffer.alloc(0), from: 0, to: 0 }
  try {
    const { from, before, maxBytes, timestamps = false } = wanted
    const { size } = await handle.stat()
    const { bytes, offset } =
      from === undefined
        ? await readBefore(handle, await lineStart(handle, Math.min(before ?? size, size)), maxBytes)
        : await readForward(handle, await lineStart(handle, Math.min(from, size)), maxBytes)
    return { text: timestamps ? bytes : withoutTimes(bytes), from: offset, to: offset + bytes.length }
  } finally {
    await handle.close()
  }
}

/** Returns the lines that end at `end`, as many as fit. */
async function readBefore(handle: FileHandle, end: number, maxBytes: number): Promise<StoredBlock> {
  const start = await lineStart(handle, Math.max(0, end - maxBytes))
  const bytes = await readAt(handle, start, end - start)
  const next = bytes.length <= maxBytes ? 0 : bytes.indexOf(newline) + 1
  return next === bytes.length ? { bytes, offset: start } : { bytes: bytes.subarray(next), offset: start + next }
}

/** Returns the lines that begin at `offset`, as many as fit, but at least one. */
async function readForward(handle: FileHandle, offset: number, maxBytes: number): Promise<StoredBlock> {
  let bytes = await readAt(handle, offset, maxBytes)
  for (;;) {
    const end = bytes.lastIndexOf(newline) + 1
    if (end > 0) return { bytes: bytes.subarray(0, end), offset }
    const more = await readAt(handle, offset + bytes.length, blockBytes)
    if (more.length === 0) return { bytes: more, offset }
    const next = more.indexOf(newline) + 1
    bytes = Buffer.concat([bytes, next === 0 ? more : more.subarray(0, next)])
  }
}

/** Returns the start of the line that contains this byte. */
async function lineStart(handle: FileHandle, offset: number): Promise<number> {
  for (let end = offset; end > 0; ) {
    const start = Math.max(0, end - blockBytes)
    const found = (await readAt(handle, start, end - start)).lastIndexOf(newline)
    if (found !== -1) return start + found + 1
    end = start
  }
  return 0
}

/** Returns the last `maxBytes` of the text, from the start of a line if one fits. `truncated` means there is more. */
export async function readTail(
  path: string,
  { maxBytes, timestamps = false }: { maxBytes: number; timestamps?: boolean }
): Promise<{ text: string; truncated: boolean }> {
  const handle = await openIfThere(path)
  if (handle === null) return { text: '', truncated: false }
  try {
    const pieces: Buffer[] = []
    let textBytes = 0
    for await (const block of readBackwards(handle, Math.min(2 * maxBytes, maxTailBlockBytes))) {
      const piece = timestamps ? block : withoutTimes(block)
      pieces.unshift(piece)
      textBytes += piece.length
      if (textBytes > maxBytes) break
    }
    const text = Buffer.concat(pieces, textBytes)
    if (textBytes <= maxBytes) return { text: text.toString(), truncated: false }
    return { text: text.toString('utf8', headCut(text, textBytes - maxBytes)), truncated: true }
  } finally {
    await handle.close()
  }
}

/** Yields blocks of whole lines, the last one first. */
async function* readBackwards(handle: FileHandle, wantedBytes: number): AsyncGenerator<Buffer> {
  let end = (await handle.stat()).size
  let held: Buffer = Buffer.alloc(0)
  let isLast = true
  while (end > 0) {
    const start = Math.max(0, end - wantedBytes)
    let bytes = Buffer.concat([await readAt(handle, start, end - start), held])
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

async function openIfThere(path: string): Promise<FileHandle | null> {
  return open(path, 'r').catch(nullIfMissing)
}
