export type Defer = (close: () => unknown) => void

/**
 * Runs `work`, then everything it deferred, last first, whether it succeeded or failed.
 * The first error is the one that travels; an error of a later close is dropped in its favour.
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
