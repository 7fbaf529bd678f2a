/* What a deployment that is queued says about the rollout that it waits for. */
import { aheadSentence } from '../model/rollout.js'
import type { Reader } from '../store/database.js'
import { rolloutAhead } from '../store/tables/rollouts.js'
import type { Queue, QueueEntry } from './queue.js'

/** How often a waiting deployment looks at the rollout ahead. */
const lookEveryMs = 2000

/**
 * Adds a deployment to the queue. Returns the number of those ahead. While it waits, `say` gets a line about the rollout in
 * progress of its project, and one whenever that changes.
 */
export function addSaying(
  { store, queue }: { store: Reader; queue: Queue },
  entry: QueueEntry,
  say: (line: string) => void
): number {
  const ahead = queue.add(entry)
  if (ahead === 0) return 0
  let last = ''
  const look = (): void => {
    // It runs, was dropped, or is left to the next start.
    if (!queue.isWaiting(entry.id)) return clearInterval(timer)
    try {
      const rollout = rolloutAhead(store, entry.key)
      const line = rollout === null ? '' : aheadSentence(rollout)
      if (line !== '' && line !== last) say(`→ waits: ${line}`)
      last = line
    } catch {
      // The database cannot be read now. The next look tells it.
    }
  }
  const timer = setInterval(look, lookEveryMs).unref()
  // The line about the queue comes first.
  queueMicrotask(look)
  return ahead
}
