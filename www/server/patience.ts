import { Refused } from './client.js'

/** Time between two attempts. */
const pauseMs = 400
/** After this number of attempts, the refusal stands. */
const attempts = 50

/**
 * Repeats a comparison while the server is busy with another one of the same project, for example with one that this
 * page has just given up. Rejects like `work`, or with the reason of the signal.
 */
export async function whenFree<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work()
    } catch (error) {
      const isBusy = error instanceof Refused && error.code === 'plan_busy'
      if (!isBusy || attempt === attempts) throw error
    }
    await new Promise(resolve => setTimeout(resolve, pauseMs))
    signal.throwIfAborted()
  }
}
