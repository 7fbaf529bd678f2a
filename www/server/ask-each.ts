import { Refused } from './client.js'

/** Number of requests at the same time. */
const atOnce = 4
/** Refusals that concern the user or the load, so that the next item would meet them too. */
const generalStatuses: ReadonlySet<number> = new Set([401, 403, 429])

/** The result of one request for each of several items. */
export interface AskedEach<Item> {
  done: Item[]
  failed: Array<{ item: Item; error: unknown }>
  /** The items that were not asked for. */
  left: Item[]
}

/**
 * Sends one request for each item, a few at the same time. Ends early if `isStopped` says so, or after an error that
 * does not concern the item alone: a lost connection, an ended session, a server that cannot write. `onProgress` gets
 * the number of answers.
 */
export async function askEach<Item>(
  items: readonly Item[],
  ask: (item: Item) => Promise<unknown>,
  { isStopped, onProgress }: { isStopped: () => boolean; onProgress: (count: number) => void }
): Promise<AskedEach<Item>> {
  const done: Item[] = []
  const failed: AskedEach<Item>['failed'] = []
  let next = 0
  let isEnded = false
  const work = async (): Promise<void> => {
    while (next < items.length && !isEnded && !isStopped()) {
      const item = items[next++] as Item
      try {
        await ask(item)
        done.push(item)
      } catch (error) {
        failed.push({ item, error })
        isEnded ||= !isOfItem(error)
      }
      onProgress(done.length + failed.length)
    }
  }
  await Promise.all(Array.from({ length: atOnce }, work))
  return { done, failed, left: items.slice(next) }
}

function isOfItem(error: unknown): boolean {
  return error instanceof Refused && error.status < 500 && !generalStatuses.has(error.status)
}
