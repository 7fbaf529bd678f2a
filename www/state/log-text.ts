/** One line of a log, as a view shows it. */
export interface LogLine {
  /** Time of the line as ISO text, if the server knows it, else empty. */
  readonly at: string
  readonly text: string
  /** Whether this is a note about the log, for example that it was rotated, and not one of its lines. */
  readonly isNote?: boolean
  /** Index of the log if there are several. */
  readonly source?: number
}

/**
 * The loaded part of a log. The numbers of lines never change: lines before the first get lower numbers, and removing
 * lines does not affect others. Dispatches `change` at most once per microtask.
 */
export interface LogText extends EventTarget {
  readonly lines: readonly LogLine[]
  /** Number of the first loaded line. */
  readonly firstNumber: number
  /** Changes when another part of the log is loaded, so that numbers denote other lines. */
  readonly epoch: number
  /** Number of lines that were appended to the log since it was opened, loaded or not. */
  readonly arrivedLines: number
  /** Whether the last loaded line is the last line of the log. */
  readonly isAtEnd: boolean
  /** What precedes the first loaded line: nothing, more lines that can be loaded, or lines that were dropped. */
  readonly head: 'start' | 'more' | 'dropped'
  /** Requests lines before the first or after the last one. They arrive as a change. */
  reach?(edge: 'start' | 'end'): void
  /** Loads the current end of the log. */
  toEnd?(): void
  /** Loads the start of the log. Returns the number of the first line. */
  toStart?(): Promise<number>
  /** Returns the number of the first line at or after a time, or null. */
  seek(atMs: number): Promise<number | null>
}

/** Dispatches `change` at most once per microtask. */
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
