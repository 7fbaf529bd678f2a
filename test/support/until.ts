import { setTimeout as sleep } from 'node:timers/promises'

/** Pause between two looks, and how it grows: by a part of the time waited, because each look may be a request. */
const [minPollMs, maxPollMs, pollShare] = [5, 100, 0.05]
/**
 * How long a test waits for what must come, which suffices for two busy cores of a fifth of the usual speed. Then it
 * fails with a sentence. What comes sooner costs nothing.
 */
export const defaultWithinMs = 180_000

/** Returns a signal that ends such a wait. */
export const soon = (): AbortSignal => AbortSignal.timeout(defaultWithinMs)

/** Waits for work that does not keep this process alive, such as the timer of a deployment. Rejects if it never ends. */
export async function inTime<T>(work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('It never ended')), defaultWithinMs)
  })
  return await Promise.race([work, late]).finally(() => clearTimeout(timer))
}

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
