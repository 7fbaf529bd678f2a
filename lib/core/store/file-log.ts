/*
 * The redo log in a file: the log of a server that is not in a cluster, and the copy of the log that each hub keeps beside
 * its svc.db. The file itself is redo.ts.
 */
import type { Disk } from './disk.js'
import { encodeHeader, encodeLine, type FollowOptions, openRedoFile, readRedo, type RedoLog, Trimmed } from './redo.js'

/** The redo log in a file. */
export interface FileLog extends RedoLog {
  /** Size of the header and the durable lines, in bytes. */
  readonly end: number
  /** Remembers where the log ends now, so that `trim` can cut exactly there. */
  mark(): void
  close(): Promise<void>
}

export interface FileLogOptions {
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
