import { setTimeout as sleep } from 'node:timers/promises'

const pollMs = 5
/** Time limit that suffices for two busy cores. After it, the test fails with a sentence. */
const defaultWithinMs = 60_000

type Truthy<T> = Exclude<T, false | null | undefined | 0 | ''>

/**
 * Looks until something is so, and gives what was found. For what tells nobody when it comes to be: a file, a process,
 * a record in another program. Rejects after `withinMs`, saying what was looked for.
 */
export async function until<T>(
  look: () => T | Promise<T>,
  { what = () => String(look), withinMs = defaultWithinMs }: { what?: string | (() => string); withinMs?: number } = {}
): Promise<Truthy<Awaited<T>>> {
  for (const deadlineMs = performance.now() + withinMs; ; await sleep(pollMs)) {
    const found = await look()
    if (found) return found as Truthy<Awaited<T>>
    if (performance.now() > deadlineMs) throw new Error(`It never came: ${typeof what === 'string' ? what : what()}`)
  }
}
