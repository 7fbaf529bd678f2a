import { constants } from 'node:fs'
import { open, type FileHandle } from 'node:fs/promises'
import { setImmediate as turn } from 'node:timers/promises'
import type { Clock } from '../base/clock.js'
import { countOf } from '../base/count.js'
import { oneLine } from '../base/one-line.js'
import { formatBytes } from '../base/size.js'
import { createRecentOutput, type RecentOutput } from './recent-output.js'
import { storedBytes, storedLine } from './stored-output.js'

/** The output of one deployment while it is written. The format is told in stored-output.ts. */
export interface Output {
  /** What was written last. */
  readonly recent: Pick<RecentOutput, 'end' | 'at'>
  /** Why something that was said is not in the file yet; null: all of it is. It is tried again with the next line, or flush. */
  readonly unwritten: Error | null
  /** A sentence of ours: one line, whatever names are in it. Never fails: it is kept until it can be written. */
  say(text: string): void
  /**
   * A line of a script. A promise: more waits to be written than memory should hold, so let the script wait for it.
   * Throws what an earlier write failed with: a script whose output is lost is to be stopped, unless it has to go on.
   */
  line(text: string): void | Promise<void>
  /**
   * From now on the deployment goes on, whether or not its output can be written: lines of scripts that cannot be are
   * counted, and a line says in their place how many are missing.
   */
  goOn(): void
  /** Resolves when everything said is in the file. Throws the first write that failed, unless the deployment goes on. */
  flush(): Promise<void>
  /** What is in the file survives a power cut when this resolves. Its name does, too: a file system that syncs a new file syncs that. */
  sync(): Promise<void>
}

export interface OutputOptions {
  path: string
  clock: Clock
  /** Called after each write, with its bytes: followers may read on. */
  onWritten?: (bytes: number) => void
  /** Of lines that scripts print, as they are stored; those beyond are not kept, and one line says so. */
  maxScriptBytes?: number
}

/** Where no setting says otherwise. */
const defaultMaxScriptBytes = 1024 * 1024 * 1024
/** Waiting to be written, in characters: past this a script has to wait. */
const maxPendingLength = 1024 * 1024
/** After a write, lines are gathered so long, */
const gatherMs = 10
/** or until there are so many characters of them. */
const writeAtOnceLength = 64 * 1024

/** Opens the output, new or to be continued: a line that a crash tore is cut off. */
export async function openOutput(options: OutputOptions): Promise<Output> {
  const { path, clock, onWritten = () => {}, maxScriptBytes = defaultMaxScriptBytes } = options
  const recent = createRecentOutput(await cutTornLine(path))
  let pending: PendingLine[] = []
  let pendingLength = 0
  let scriptBytes = 0
  let writing: Promise<void> | null = null
  /** The first write that failed. */
  let fault: Error | null = null
  let unwritten: Error | null = null
  let mustGoOn = false
  let flushes = 0
  let stopPause: (() => void) | null = null
  const tooMuch = `→ more than ${formatBytes(maxScriptBytes)} of output: the rest is not kept (setting max_output_size)`
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
        if (flushes === 0) await pause()
        if (pending.length === tried) break
        continue
      }
      if (flushes === 0 && pendingLength < writeAtOnceLength) await pause()
    }
    writing = null
  }

  function keepForLater(lines: PendingLine[], error: NodeJS.ErrnoException): void {
    fault ??= error
    // An output that was removed stays removed.
    const isGone = error.code === 'ENOENT'
    unwritten = isGone ? null : error
    pending = isGone ? [] : [...withoutScripts(lines, { at: timeOf(clock.now()), error }), ...pending]
    pendingLength = pending.reduce((total, { text }) => total + text.length, 0)
  }

  /** A script that prints line by line must not cost a write, and every follower a read, for each. */
  function pause(): Promise<void> {
    return new Promise(resolve => {
      const timer = setTimeout(resolve, gatherMs)
      stopPause = () => {
        stopPause = null
        clearTimeout(timer)
        resolve()
      }
    })
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
      if (fault !== null && !mustGoOn) throw fault
      if (scriptBytes > maxScriptBytes) return
      scriptBytes += storedBytes(text)
      add(scriptBytes > maxScriptBytes ? tooMuch : text, true)
      if (pendingLength > writeAtOnceLength) stopPause?.()
      return pendingLength > maxPendingLength && writing !== null ? writing : undefined
    },
    goOn() {
      mustGoOn = true
    },
    async flush() {
      flushes++
      stopPause?.()
      if (pending.length > 0) writing ??= writePending()
      await writing
      flushes--
      if (fault !== null && !mustGoOn) throw fault
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

/** A line as it is to be stored. */
interface PendingLine {
  text: string
  isScript: boolean
  /** The line says that so many of a script are missing. */
  lost?: { lines: number; bytes: number }
}

/** Lines that could not be written: sentences are kept, and of lines of scripts how many there were in each place. */
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
  const text = `→ missing here: ${what} that could not be written (${oneLine(error.message)})`
  return { text: storedLine(at, text), isScript: false, lost }
}

/** Appends all or nothing, to a file that must still be there: one that was removed stays removed. */
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

/** Makes sure of the file; returns how many bytes of whole lines it holds. */
async function cutTornLine(path: string): Promise<number> {
  const handle = await open(path, constants.O_RDWR | constants.O_CREAT, 0o600)
  try {
    const { size } = await handle.stat()
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

/** Many lines fall into one millisecond: its text is made once. */
function createTimeText(): (ms: number) => string {
  let lastMs = NaN
  let text = ''
  return ms => {
    if (ms !== lastMs) text = new Date((lastMs = ms)).toISOString()
    return text
  }
}
