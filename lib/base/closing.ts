/** Registers a function to call at the end. */
export type Defer = (close: () => unknown) => void

/**
 * Runs `work`, and then everything it deferred, in reverse order, whether it succeeded or failed. Throws the first
 * error; errors of later closes are dropped.
 */
export async function closing<T>(work: (defer: Defer) => Promise<T>): Promise<T> {
  const closes: Array<() => unknown> = []
  const errors: unknown[] = []
  let result: T | undefined
  try {
    result = await work(close => void closes.push(close))
  } catch (error) {
    errors.push(error)
  }
  for (const close of closes.reverse()) {
    try {
      await close()
    } catch (error) {
      errors.push(error)
    }
  }
  if (errors.length > 0) throw errors[0]
  return result as T
}
