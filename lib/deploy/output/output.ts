import { constants } from 'node:fs'
import { type FileHandle, open, stat } from 'node:fs/promises'
import { setImmediate as turn } from 'node:timers/promises'
import { nullIfMissing } from '../../base/errors.js'
import type { Clock } from '../../base/clock.js'
import { countOf, oneLine } from '../../base/text.js'
import { formatBytes } from '../../base/shared/api.js'
import { type StoredBlock, storedBytes, storedLine } from './stored-output.js'

/** The output of one deployment while it is being written. stored-output.ts describes the format. */
export interface Output {
  /** The last blocks that were written. */
  readonly recent: Pick<RecentOutput, 'end' | 'at'>
  /** Why some lines are not in the file yet, or null if all are. The next line or flush tries again. */
  readonly unwritten: Error | null
  /** Writes a sentence of svc as one line. Never fails: the line is kept until it can be written. */
  say(text: string): void
  /**
   * Writes a line of a script. If it returns a promise, too much is waiting in memory, and the script should wait for
   * it. Throws the error of an earlier write, unless `tolerateFailures` was called: a script whose output is lost is
   * stopped.
   */
  line(text: string): void | Promise<void>
  /**
   * Lets the deployment continue even if its output cannot be written. From now on, script lines that cannot be written
   * are counted, and one line in their place says how many are missing.
   */
  tolerateFailures(): void
  /** Resolves when every line is in the file. Throws the first write error, unless `tolerateFailures` was called. */
  flush(): Promise<void>
  /** Syncs the file, so that it survives a power cut. File systems that sync a new file sync its name, too. */
  sync(): Promise<void>
}

export interface OutputOptions {
  path: string
  clock: Clock
  /** Called after each write with its size in bytes, so that followers can continue. */
  onWritten?: (bytes: number) => void
  /** Maximum size of script lines as stored, in bytes. Later lines are discarded, and one line says so. */
  maxScriptBytes?: number
}

/** Default limit without a setting. */
const defaultMaxScriptBytes = 1024 * 1024 * 1024
/** Characters that may wait to be written. Beyond that, a script has to wait. */
const maxPendingLength = 1024 * 1024
/** After a write, lines are collected for this long, */
const gatherMs = 10
/** or until they have this many characters. */
const writeAtOnceLength = 64 * 1024

/** Opens a new or existing output. A last line cut off by a crash is removed. */
export async function openOutput(options: OutputOptions): Promise<Output> {
  const { path, clock, onWritten = () => {}, maxScriptBytes = defaultMaxScriptBytes } = options
  const recent = createRecentOutput(await cutTornLine(path))
  let pending: PendingLine[] = []
  let pendingLength = 0
  let scriptBytes = 0
  let writing: Promise<void> | null = null
  /** The first write error. */
  let fault: Error | null = null
  let unwritten: Error | null = null
  let toleratesFailures = false
  let flushes = 0
  const gathering = createPause(gatherMs)
  const tooMuch = `→ the output exceeds ${formatBytes(maxScriptBytes)}: the rest is discarded (setting max_output_size)`
  const timeOf = createTimeText()

  function add(text: string, isScript: boolean): void {
    const line = storedLine(timeOf(clock.now()), text)
    pending.push({ text: line, isScript })
    pendingLength += line.length
    writing ??= writePending()
  }

  async function writePending(): Promise<void> {
    await turn()
    while (pending.length > 0) {
      const lines = pending
      pending = []
      pendingLength = 0
      try {
        const bytes = Buffer.from(lines.map(({ text }) => text).join(''))
        await append(path, bytes, recent.end)
        recent.add(bytes)
        onWritten(bytes.length)
        unwritten = null
      } catch (error) {
        keepForLater(lines, error as NodeJS.ErrnoException)
        const tried = pending.length
        if (flushes === 0) await gathering.wait()
        if (pending.length === tried) break
        continue
      }
      if (flushes === 0 && pendingLength < writeAtOnceLength) await gathering.wait()
    }
    writing = null
  }

  function keepForLater(lines: PendingLine[], error: NodeJS.ErrnoException): void {
    fault ??= error
    // An output that was removed is not created again.
    const isGone = error.code === 'ENOENT'
    unwritten = isGone ? null : error
    pending = isGone ? [] : [...withoutScripts(lines, { at: timeOf(clock.now()), error }), ...pending]
    pendingLength = pending.reduce((total, { text }) => total + text.length, 0)
  }

  return {
    recent,
    get unwritten() {
      return unwritten
    },
    say(text) {
      add(oneLine(text), false)
    },
    line(text) {
      if (fault !== null && !toleratesFailures) throw fault
      if (scriptBytes > maxScriptBytes) return
      scriptBytes += storedBytes(text)
      add(scriptBytes > maxScriptBytes ? tooMuch : text, true)
      if (pendingLength > writeAtOnceLength) gathering.stop()
      return pendingLength > maxPendingLength && writing !== null ? writing : undefined
    },
    tolerateFailures() {
      toleratesFailures = true
    },
    async flush() {
      flushes++
      gathering.stop()
      const isBegun = writing !== null
      if (pending.length > 0) writing ??= writePending()
      await writing
      // A write that began before this call and failed says nothing about the disk now.
      if (isBegun && pending.length > 0) await (writing ??= writePending())
      flushes--
      if (fault !== null && !toleratesFailures) throw fault
    },
    async sync() {
      const handle = await open(path, constants.O_WRONLY)
      try {
        await handle.datasync()
      } finally {
        await handle.close()
      }
    }
  }
}

/** Opens the output of an earlier run to add lines. If its file is lost, the first of them says so. */
export async function continueOutput(options: OutputOptions): Promise<Output> {
  const isLost = (await stat(options.path).catch(nullIfMissing)) === null
  const output = await openOutput(options)
  if (isLost) output.say('→ the output before this line is lost')
  return output
}

/** A pause that can be stopped: a script that prints line by line must not cause a write, and a read per follower, for each. */
function createPause(ms: number) {
  let end: (() => void) | null = null
  return {
    wait: (): Promise<void> =>
      new Promise(resolve => {
        const timer = setTimeout(resolve, ms)
        end = () => {
          end = null
          clearTimeout(timer)
          resolve()
        }
      }),
    stop: (): void => end?.()
  }
}

/** A line waiting to be written. */
interface PendingLine {
  text: string
  isScript: boolean
  /** Set if the line says how many script lines are missing. */
  lost?: { lines: number; bytes: number }
}

/** Keeps the sentences of lines that could not be written, and replaces each run of script lines by a count. */
function withoutScripts(lines: PendingLine[], { at, error }: { at: string; error: Error }): PendingLine[] {
  const kept: PendingLine[] = []
  let lost = { lines: 0, bytes: 0 }
  const close = (): void => {
    if (lost.lines > 0) kept.push(gapLine(lost, at, error))
    lost = { lines: 0, bytes: 0 }
  }
  for (const line of lines) {
    if (line.lost === undefined && !line.isScript) {
      close()
      kept.push(line)
    } else {
      lost.lines += line.lost?.lines ?? 1
      lost.bytes += line.lost?.bytes ?? Buffer.byteLength(line.text)
    }
  }
  close()
  return kept
}

function gapLine(lost: { lines: number; bytes: number }, at: string, error: Error): PendingLine {
  const what = `${countOf(lost.lines, 'line')} (${formatBytes(lost.bytes)}) of output`
  const text = `→ missing here: ${what}, because it could not be written (${oneLine(error.message)})`
  return { text: storedLine(at, text), isScript: false, lost }
}

/** Appends all or nothing. The file must exist: an output that was removed is not created again. */
async function append(path: string, bytes: Buffer, storedBytes: number): Promise<void> {
  const handle = await open(path, constants.O_WRONLY | constants.O_APPEND)
  try {
    await handle.appendFile(bytes)
  } catch (error) {
    await handle.truncate(storedBytes).catch(() => {})
    throw error
  } finally {
    await handle.close()
  }
}

/** Creates the file if needed, removes an incomplete last line, and returns the size in bytes. */
async function cutTornLine(path: string): Promise<number> {
  const handle = await open(path, constants.O_RDWR | constants.O_CREAT, 0o600)
  try {
    const stats = await handle.stat()
    // To write into a pipe would wait for its reader.
    if (!stats.isFile()) throw new Error(`"${path}" is not a file`)
    const { size } = stats
    const end = await endOfLastLine(handle, size)
    if (end < size) await handle.truncate(end)
    return end
  } finally {
    await handle.close()
  }
}

async function endOfLastLine(handle: FileHandle, size: number): Promise<number> {
  const block = Buffer.allocUnsafe(64 * 1024)
  for (let end = size; end > 0; ) {
    const start = Math.max(0, end - block.length)
    const { bytesRead } = await handle.read(block, 0, end - start, start)
    const at = block.subarray(0, bytesRead).lastIndexOf('\n')
    if (at !== -1) return start + at + 1
    end = start
  }
  return 0
}

/** Creates a formatter of times that reuses its result, because many lines have the same millisecond. */
function createTimeText(): (ms: number) => string {
  let lastMs = NaN
  let text = ''
  return ms => {
    if (ms !== lastMs) text = new Date((lastMs = ms)).toISOString()
    return text
  }
}

/** The end of an output that is being written. Followers at the end share these blocks and read no file. */
export type RecentOutput = ReturnType<typeof createRecentOutput>

/** Maximum size of a block, in bytes. */
const blockBytes = 64 * 1024
/** Bytes kept in memory. A follower that is further behind reads the file. */
const keptBytes = 256 * 1024
const newline = 10

/** Creates the recent output of a file with `end` bytes. */
export function createRecentOutput(end: number) {
  const blocks: StoredBlock[] = []
  let bytesKept = 0

  function keep(bytes: Buffer): void {
    blocks.push({ bytes, offset: end })
    end += bytes.length
    bytesKept += bytes.length
    while (bytesKept > keptBytes && blocks.length > 1) bytesKept -= blocks.shift()?.bytes.length ?? 0
  }

  return {
    /** Size of the file in bytes. */
    get end() {
      return end
    },

    /** Adds whole lines that have been appended to the file. */
    add(bytes: Buffer): void {
      for (let start = 0; start < bytes.length; ) {
        const next = endOfBlock(bytes, start)
        keep(bytes.subarray(start, next))
        start = next
      }
    },

    /** Returns the lines from `offset` on, or null if they are no longer kept or `offset` is the end. */
    at(offset: number): StoredBlock | null {
      const block = blocks.find(one => offset >= one.offset && offset < one.offset + one.bytes.length)
      if (block === undefined) return null
      return block.offset === offset ? block : { bytes: block.bytes.subarray(offset - block.offset), offset }
    }
  }
}

/** Returns the end of a block: as many whole lines as fit, or one line if it is longer. */
function endOfBlock(bytes: Buffer, start: number): number {
  if (bytes.length - start <= blockBytes) return bytes.length
  const fitting = bytes.lastIndexOf(newline, start + blockBytes - 1)
  return (fitting >= start ? fitting : bytes.indexOf(newline, start)) + 1
}
