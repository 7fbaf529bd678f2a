/** A queue of text that has been received and not written yet. */
export interface Feed {
  readonly isEmpty: boolean
  /** Adds a text. Calls `onWritten` after all of it has been written. */
  push(text: string, onWritten?: () => void): void
  /** Writes for about `budgetMs`, but at least one slice, and leaves the rest in the queue. */
  run(): void
  /** Drops the rest without calling `onWritten`. */
  clear(): void
}

/** What `createFeed` needs. */
export interface FeedNeeds {
  write: (text: string) => void
  /** Clock in milliseconds, with any origin. */
  now: () => number
  /** Time of one run in milliseconds. The default leaves half of a frame for drawing. */
  budgetMs?: number
}

const defaultBudgetMs = 8
/** Characters written between two readings of the clock. Writing them takes a fraction of a millisecond. */
const sliceLength = 8 * 1024

/** Creates a queue that is written in slices. A flood of text leaves the page time to draw and to handle keys. */
export function createFeed({ write, now, budgetMs = defaultBudgetMs }: FeedNeeds): Feed {
  let queue: Array<{ text: string; onWritten: (() => void) | undefined }> = []
  let first = 0
  let offset = 0

  /** Writes the next slice. */
  const step = (): void => {
    const { text, onWritten } = queue[first] as (typeof queue)[number]
    const end = Math.min(text.length, offset + sliceLength)
    write(offset === 0 && end === text.length ? text : text.slice(offset, end))
    offset = end
    if (end < text.length) return
    offset = 0
    if (++first === queue.length) {
      queue = []
      first = 0
    }
    onWritten?.()
  }

  return {
    get isEmpty() {
      return first === queue.length
    },
    push(text, onWritten) {
      queue.push({ text, onWritten })
    },
    run() {
      const endMs = now() + budgetMs
      do {
        if (first === queue.length) return
        step()
      } while (now() < endMs)
    },
    clear() {
      queue = []
      first = offset = 0
    }
  }
}
