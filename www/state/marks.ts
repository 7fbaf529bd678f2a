import type { Marks } from '../../lib/model/waiting.js'
import type { ChangeWatch } from './resource.js'

/** What lists of projects show beside their status, as the server said last. The frame and the pages share it. */
export interface MarksNow extends Marks {
  /** Calls `work` after each change, until the signal is aborted. */
  follow(work: () => void, signal: AbortSignal): void
}

const none: Marks = { waiting: [], locks: [], failedInBackground: [] }

/** Creates the marks. They are asked for when somebody follows them, and again when they may have changed. */
export function createMarks({ ask, changes }: { ask: () => Promise<Marks>; changes: ChangeWatch }): MarksNow {
  const news = new EventTarget()
  let now = none
  let asking: Promise<void> | null = null

  /** Several followers share a request. An older server, and one that cannot be reached, tells nothing. */
  function load(): void {
    asking ??= ask()
      .then(
        marks => {
          now = marks
          news.dispatchEvent(new Event('change'))
        },
        () => {}
      )
      .finally(() => (asking = null))
  }

  return {
    get waiting() {
      return now.waiting
    },
    get locks() {
      return now.locks
    },
    get failedInBackground() {
      return now.failedInBackground
    },
    follow(work, signal) {
      if (signal.aborted) return
      news.addEventListener('change', work, { signal })
      changes.follow(['marks'], load, signal)
      load()
    }
  }
}
