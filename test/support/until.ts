import { setTimeout as sleep } from 'node:timers/promises'

/** Pause between two looks, and how it grows: by a part of the time waited, because each look may be a request. */
const [minPollMs, maxPollMs, pollShare] = [5, 100, 0.05]
/** How long a test waits for what must come, which suffices for two busy cores. Then it fails with a sentence. */
export const defaultWithinMs = 60_000

type Truthy<T> = Exclude<T, false | null | undefined | 0 | ''>

/**
 * Looks until something is so, and gives what was found. For what tells nobody when it comes to be: a file, a process,
 * a record in another program. Rejects after `withinMs`, saying what was looked for.
 */
export async function until<T>(
  look: () => T | Promise<T>,
  { what = () => String(look), withinMs = defaultWithinMs }: { what?: string | (() => string); withinMs?: number } = {}
): Promise<Truthy<Awaited<T>>> {
  for (const fromMs = performance.now(); ; ) {
    const found = await look()
    if (found) return found as Truthy<Awaited<T>>
    const waitedMs = performance.now() - fromMs
    if (waitedMs > withinMs) throw new Error(`It never came: ${typeof what === 'string' ? what : what()}`)
    await sleep(Math.min(maxPollMs, Math.max(minPollMs, waitedMs * pollShare)))
  }
}
