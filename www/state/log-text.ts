/** One line of a log, as a view shows it. */
export interface LogLine {
  /** When it was written, where the server knows; else empty. ISO text. */
  readonly at: string
  readonly text: string
  /** No line of the log, but a word about it: that it was rotated, that something is missing here. */
  readonly isNote?: boolean
  /** Which of several logs it is from. */
  readonly source?: number
}

/**
 * A log as far as it is held. Lines have numbers that stay theirs: those put before the first have lower ones, those
 * given up leave the others as they are. Dispatches `change` at most once a microtask.
 */
export interface LogText extends EventTarget {
  readonly lines: readonly LogLine[]
  /** The number of the first line held. */
  readonly firstNumber: number
  /** Another one: what is held is another part of the log, and numbers mean other lines. */
  readonly epoch: number
  /** How many lines have come at the log's end since it was opened, held or not. */
  readonly arrivedLines: number
  /** The last line held is the last of the log. */
  readonly isAtEnd: boolean
  /** What is before the first line held: nothing, more that can be had, or lines that were given up for good. */
  readonly head: 'start' | 'more' | 'dropped'
  /** More is wanted before the first line, or after the last; it comes as a change. */
  reach?(edge: 'start' | 'end'): void
  /** Shows the log's end, wherever it is now. */
  toEnd?(): void
  /** Shows its start; gives the number of the first line. */
  toStart?(): Promise<number>
  /** The number of the first line at or after a time; null: there is none. */
  seek(atMs: number): Promise<number | null>
}

/** What dispatches `change` once a microtask, however often it is asked to. */
export class Announcer extends EventTarget {
  #isAnnounced = false

  protected announce(): void {
    if (this.#isAnnounced) return
    this.#isAnnounced = true
    queueMicrotask(() => {
      this.#isAnnounced = false
      this.dispatchEvent(new Event('change'))
    })
  }
}
