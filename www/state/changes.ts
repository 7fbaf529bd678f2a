import type { ChangeVersions, ChangeTopic } from '../../lib/model/changes.js'

/** Lists that load again only when the server says that something in them may have changed. */
export interface ChangeWatch {
  /**
   * Calls `work` when one of the topics has changed, until the signal is aborted. If `work` returns false (it is busy), it is
   * called again by the next look.
   */
  follow(topics: readonly ChangeTopic[], work: () => void | boolean, signal: AbortSignal): void
}

export interface ChangeNeeds {
  /** One request for all that is followed. */
  ask: () => Promise<ChangeVersions>
  /** Whether somebody looks at the page and the server can be reached. */
  isActive: () => boolean
  intervalMs: number
  /** Calls back after a while; returns how to prevent it. */
  later: (work: () => void, ms: number) => () => void
}

interface Follower {
  topics: readonly ChangeTopic[]
  work: () => void | boolean
  /** What the topics were when `work` was called last; null: not known, so the next look calls it. */
  known: string | null
}

const realLater: ChangeNeeds['later'] = (work, ms) => {
  const timer = setTimeout(work, ms)
  return () => clearTimeout(timer)
}

/**
 * One poll for all lists of a page. `look` asks at once: for a tab that is seen again. A list that begins to be followed is
 * loaded once more by the first look, because it may have changed before.
 */
export function createChanges(
  { ask, isActive, intervalMs, later }: Omit<ChangeNeeds, 'later'> & Partial<Pick<ChangeNeeds, 'later'>>
): ChangeWatch & { look(): void } {
  const wait = later ?? realLater
  const followers = new Set<Follower>()
  let last: ChangeVersions | null = null
  let stop: (() => void) | null = null
  let isAsking = false

  const textOf = (changes: ChangeVersions, topics: readonly ChangeTopic[]): string => topics.map(topic => changes[topic]).join(' ')

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
      // The frame says that the server is away.
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
