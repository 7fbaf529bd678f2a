/** Registers a function to call at the end. */
export type Defer = (close: () => unknown) => void

/** Calls every function in turn, whatever an earlier one throws. Then throws the first error; later ones are dropped. */
export async function callAll(steps: Iterable<() => unknown>): Promise<void> {
  const errors: unknown[] = []
  for (const step of steps) {
    try {
      await step()
    } catch (error) {
      errors.push(error)
    }
  }
  if (errors.length > 0) throw errors[0]
}

/**
 * Runs `work`, and then everything it deferred, in reverse order, whether it succeeded or failed. Throws the first
 * error; errors of later closes are dropped.
 */
export async function closing<T>(work: (defer: Defer) => Promise<T>): Promise<T> {
  const closes: Array<() => unknown> = []
  let result: T | undefined
  await callAll([
    async () => void (result = await work(close => void closes.push(close))),
    () => callAll(closes.reverse())
  ])
  return result as T
}
