/*
 * One file behind a log's name, followed from a place on. A log that is rotated is a row of them.
 *
 * What was read last before `offset` is read again together with what is new, in one read: when it is not there any
 * more, the file was truncated and written anew (`copytruncate`), even if it has grown past `offset` since.
 */
import { createLineSplitter } from '../base/lines.js'
import { readAt, type Contents } from './contents.js'
import { newline } from './text.js'

export interface Generation {
  /** Which file it is, whatever its name. */
  readonly identity: string
  readonly contents: Contents
  /** Up to where it has been read. */
  readonly offset: number
  /** Up to where its lines have been handed out. */
  readonly linesEnd: number
  /** What stands before `offset`, as far as it is kept. */
  readonly known: Buffer
  /** When it was read last, as files have their times. */
  readonly readAtMs: number
  /**
   * Reads on; null: the file was truncated, and must be read from its start. Lines are whole; the last one may wait for its end.
   * `share` lets those who are at the same place of the file share the read.
   */
  read(share?: Share): Promise<{ lines: string[]; isEnd: boolean } | null>
  /** Reads on in `copy`, which was made of it before it was truncated; and lets go of what it had. */
  moveTo(copy: Contents): Promise<void>
  /** What waits for the end of its line. */
  rest(): string[]
  release(): Promise<void>
}

/** As `SharedLooks`, of one moment. */
export type Share = (key: string, read: () => Promise<Buffer>) => Promise<Buffer>

const blockBytes = 128 * 1024
/** Read again to know the file by. */
const markBytes = 256

export interface GenerationStart {
  identity: string
  contents: Contents
  /** What was read up to here, as far as it is known: its end is what the file is known by. */
  offset: number
  mark: Buffer
}

export function createGeneration({ identity, contents, offset, mark }: GenerationStart): Generation {
  let readAtMs = Date.now()
  let lines: string[] = []
  let known = mark.subarray(-markBytes)
  // A line whose beginning was shown already: when nothing but its end comes, there is nothing to show.
  let isContinued = mark.length > 0 && mark[mark.length - 1] !== newline
  const splitter = createLineSplitter(line => {
    if (!isContinued || line !== '') lines.push(line)
    isContinued = false
  })

  function take(bytes: Buffer): void {
    known = Buffer.from(bytes.length >= markBytes ? bytes.subarray(-markBytes) : Buffer.concat([known, bytes]).subarray(-markBytes))
    splitter.push(isHole(bytes) ? Buffer.alloc(0) : bytes)
    offset += bytes.length
  }

  /** Zeros before anything else were written by nobody: the writer of a truncated file went on at its old place. */
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
