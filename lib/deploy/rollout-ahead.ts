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
  let timer: NodeJS.Timeout | undefined
  const ahead = queue.add({
    ...entry,
    run() {
      clearInterval(timer)
      return entry.run()
    },
    drop(request) {
      clearInterval(timer)
      return entry.drop(request)
    }
  })
  if (ahead === 0) return 0
  let last = ''
  const look = (): void => {
    const rollout = rolloutAhead(store, entry.key)
    const line = rollout === null ? '' : aheadSentence(rollout)
    if (line !== '' && line !== last) say(`→ waits: ${line}`)
    last = line
  }
  // The line about the queue comes first.
  queueMicrotask(look)
  timer = setInterval(look, lookEveryMs).unref()
  return ahead
}
