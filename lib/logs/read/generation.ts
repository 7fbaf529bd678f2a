/*
 * One file behind a log's name, followed from some position on. A log that is rotated is a sequence of generations.
 *
 * Each read also covers the last known bytes before `offset`. If these have changed, the file was truncated and
 * rewritten (`copytruncate`), even if it has grown past `offset` since.
 */
import { createLineSplitter } from '../../base/lines.js'
import { readAt } from '../../base/read-at.js'
import type { Contents } from './contents.js'
import { newline } from './text.js'

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
   * Reads the next lines. Returns null if the file was truncated and must be read from its start. All lines are
   * complete; an incomplete last line waits for its end. With `share`, followers at the same position of the file share
   * one read.
   */
  read(share?: Share): Promise<{ lines: string[]; isEnd: boolean } | null>
  /** Continues in `copy`, which was made of the file before it was truncated. Releases the previous contents. */
  moveTo(copy: Contents): Promise<void>
  /** Returns an incomplete last line. */
  rest(): string[]
  release(): Promise<void>
}

/** Runs a read once for all who ask for it at the same moment, see `SharedLooks`. */
export type Share = (key: string, read: () => Promise<Buffer>) => Promise<Buffer>

const blockBytes = 128 * 1024
/** Number of bytes by which the file is recognized. */
const markBytes = 256

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
  let known = mark.subarray(-markBytes)
  // The beginning of this line was already handed out. If only its line end arrives, there is nothing to hand out.
  let isContinued = mark.length > 0 && mark[mark.length - 1] !== newline
  const splitter = createLineSplitter(line => {
    if (!isContinued || line !== '') lines.push(line)
    isContinued = false
  })

  function take(bytes: Buffer): void {
    known = Buffer.from(
      bytes.length >= markBytes ? bytes.subarray(-markBytes) : Buffer.concat([known, bytes]).subarray(-markBytes)
    )
    splitter.push(isHole(bytes) ? Buffer.alloc(0) : bytes)
    offset += bytes.length
  }

  /**
   * Zeros at the start of a file were written by nobody: after a truncation the writer continued at its old position.
   */
  const isHole = (bytes: Buffer): boolean => offset === 0 && bytes[0] === 0 && bytes.every(byte => byte === 0)

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
    async read(share = (_, read) => read()) {
      if (contents.isCompressed) return { lines: [], isEnd: true }
      const nowMs = Date.now()
      const from = offset - known.length
      const wanted = known.length + blockBytes
      const bytes = await share(`${identity} ${from} ${wanted}`, () => readAt(contents.handle, from, wanted))
      if (!bytes.subarray(0, known.length).equals(known)) return null
      readAtMs = nowMs
      const isEnd = bytes.length < known.length + blockBytes
      if (bytes.length > known.length) take(bytes.subarray(known.length))
      return { lines: taken(), isEnd }
    },
    async moveTo(copy) {
      const before = contents
      contents = copy
      await before.release()
    },
    rest() {
      splitter.end()
      return taken()
    },
    release: () => contents.release()
  }
}
