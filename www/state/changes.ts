import type { ChangeTopic, ChangeVersions } from '../../lib/model/health.js'

/** Reloads lists only when the server reports that something in them may have changed. */
export interface ChangeWatch {
  /**
   * Calls `work` when one of the topics has changed, until the signal is aborted. If `work` returns false (it is busy),
   * the next poll calls it again.
   */
  follow(topics: readonly ChangeTopic[], work: () => void | boolean, signal: AbortSignal): void
}

/** What `createChanges` needs. */
export interface ChangeNeeds {
  /** Requests the versions of all topics. */
  ask: () => Promise<ChangeVersions>
  /** Whether the page is visible and the server can be reached. */
  isActive: () => boolean
  intervalMs: number
  /** Calls `work` after `ms` milliseconds. Returns a function that cancels the call. */
  later: (work: () => void, ms: number) => () => void
}

interface Follower {
  topics: readonly ChangeTopic[]
  work: () => void | boolean
  /** Versions of the topics at the last call of `work`. Null means unknown: the next poll calls it. */
  known: string | null
}

const realLater: ChangeNeeds['later'] = (work, ms) => {
  const timer = setTimeout(work, ms)
  return () => clearTimeout(timer)
}

/**
 * Creates one poll for all lists of a page. `look` polls at once, for a tab that becomes visible again. The first poll
 * reloads a list that is followed newly, because it may have changed before.
 */
export function createChanges({
  ask,
  isActive,
  intervalMs,
  later
}: Omit<ChangeNeeds, 'later'> & Partial<Pick<ChangeNeeds, 'later'>>): ChangeWatch & { look(): void } {
  const wait = later ?? realLater
  const followers = new Set<Follower>()
  let last: ChangeVersions | null = null
  let stop: (() => void) | null = null
  let isAsking = false

  const textOf = (changes: ChangeVersions, topics: readonly ChangeTopic[]): string =>
    topics.map(topic => changes[topic]).join(' ')

  function tell(changes: ChangeVersions): void {
    last = changes
    for (const follower of [...followers]) {
      const now = textOf(changes, follower.topics)
      if (now === follower.known) continue
      if (follower.work() !== false) follower.known = now
    }
  }

  function plan(): void {
    stop?.()
    stop = followers.size === 0 ? null : wait(() => void look(), intervalMs)
  }

  async function look(): Promise<void> {
    if (isAsking) return
    if (followers.size > 0 && isActive()) {
      isAsking = true
      // The frame shows that the server cannot be reached.
      await ask().then(tell, () => {})
      isAsking = false
    }
    plan()
  }

  return {
    follow(topics, work, signal) {
      if (signal.aborted) return
      const follower: Follower = { topics, work, known: last === null ? null : textOf(last, topics) }
      followers.add(follower)
      signal.addEventListener('abort', () => void followers.delete(follower), { once: true })
      if (stop === null) plan()
    },
    look: () => void look()
  }
}
