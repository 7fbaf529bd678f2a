/** What has come and is not written yet. */
export interface Feed {
  readonly isEmpty: boolean
  /** `onWritten` is called once all of the text has been written. */
  push(text: string, onWritten?: () => void): void
  /** Writes for about `budgetMs`, one slice at least, and leaves the rest. */
  run(): void
  /** Forgets the rest; its callers are never told. */
  clear(): void
}

export interface FeedNeeds {
  write: (text: string) => void
  /** Milliseconds, from anywhere. */
  now: () => number
  /** Half of a frame is left for drawing it. */
  budgetMs?: number
}

const defaultBudgetMs = 8
/** Characters between two looks at the clock: a fraction of a millisecond's work. */
const sliceLength = 8 * 1024

/** A queue that is written in slices, so that a flood leaves the page time to draw and to hear keys. */
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
