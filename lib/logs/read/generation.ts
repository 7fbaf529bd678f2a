/*
 * One file behind a log's name, followed from some position on. A log that is rotated is a sequence of generations.
 *
 * Each read also covers the last known bytes before `offset`. If these have changed, the file was truncated and
 * rewritten (`copytruncate`), even if it has grown past `offset` since.
 */
import { createLineSplitter } from '../../base/lines.js'
import { readAt } from '../../base/read-at.js'
import type { Contents } from './contents.js'
import { newline, withoutHole } from './text.js'

/** One file behind a log's name, and how far it has been read. */
export interface Generation {
  /** Identity of the file, independent of its name. */
  readonly identity: string
  readonly contents: Contents
  /** Position up to which the file has been read. */
  readonly offset: number
  /** Position up to which its lines have been handed out. */
  readonly linesEnd: number
  /** The last bytes before `offset`, at most `markBytes`. */
  readonly known: Buffer
  /** Time of the last read, on the clock of file times. */
  readonly readAtMs: number
  /**
   * Reads the next lines, at most up to the position `until`. Returns null if the file was truncated and must be read
   * from its start. All lines are complete; an incomplete last line waits for its end. With `share`, followers at the
   * same position of the file share one read.
   */
  read(options?: { share?: Share | undefined; until?: number }): Promise<{ lines: string[]; isEnd: boolean } | null>
  /** Continues in `copy`, which was made of the file before it was truncated. Releases the previous contents. */
  moveTo(copy: Contents): Promise<void>
  /** Returns an incomplete last line. What follows it is another line. */
  rest(): string[]
  release(): Promise<void>
}

/** Runs a read once for all who ask for it at the same moment, see `SharedLooks`. */
export type Share = (key: string, read: () => Promise<Buffer>) => Promise<Buffer>

/** A stream holds one block, its lines and their text while its client does not read (`logStreamBytes`). */
const blockBytes = 32 * 1024
/** Number of bytes by which the file is recognized. */
const markBytes = 256

const alone: Share = (_, read) => read()

/** Where a generation starts. */
export interface GenerationStart {
  identity: string
  contents: Contents
  /** The known bytes before `offset`. The file is recognized by the last of them. */
  offset: number
  mark: Buffer
}

/** Creates a generation that continues at `offset`. */
export function createGeneration({ identity, contents, offset, mark }: GenerationStart): Generation {
  let readAtMs = Date.now()
  let lines: string[] = []
  // Copied: the mark may be a part of a large block.
  let known = Buffer.from(mark.subarray(-markBytes))
  // The beginning of this line was already handed out. If only its line end arrives, there is nothing to hand out.
  let isContinued = mark.length > 0 && mark[mark.length - 1] !== newline
  const splitter = createLineSplitter(given => {
    const line = withoutHole(given)
    // A hole may be longer than a piece of a line.
    const isHole = line === '' && given !== ''
    if (!isHole && (!isContinued || line !== '')) lines.push(line)
    isContinued &&= isHole
  })

  function take(bytes: Buffer): void {
    known = Buffer.from(
      bytes.length >= markBytes ? bytes.subarray(-markBytes) : Buffer.concat([known, bytes]).subarray(-markBytes)
    )
    splitter.push(bytes)
    offset += bytes.length
  }

  function taken(): string[] {
    const all = lines
    lines = []
    return all
  }

  return {
    identity,
    get contents() {
      return contents
    },
    get offset() {
      return offset
    },
    get linesEnd() {
      return offset - splitter.heldBytes
    },
    get known() {
      return known
    },
    get readAtMs() {
      return readAtMs
    },
    async read({ share = alone, until = Infinity } = {}) {
      const nowMs = Date.now()
      const from = offset - known.length
      const limit = Math.min(blockBytes, until - offset)
      const wanted = known.length + limit
      const bytes = await share(`${identity} ${from} ${wanted}`, () => readAt(contents.handle, from, wanted))
      if (!bytes.subarray(0, known.length).equals(known)) return null
      readAtMs = nowMs
      const isEnd = bytes.length < wanted || offset + limit === until
      if (bytes.length > known.length) take(bytes.subarray(known.length))
      return { lines: taken(), isEnd }
    },
    async moveTo(copy) {
      const before = contents
      contents = copy
      await before.release()
    },
    rest() {
      const isPart = splitter.heldBytes > 0
      splitter.end()
      isContinued ||= isPart
      return taken()
    },
    release: () => contents.release()
  }
}
