/** A part of the program that is loaded when it is first needed. */
export interface Door<T> {
  /** Returns the part. It is made once; if that fails, the next call tries again. */
  (): Promise<T>
  /** Returns the part if it was made; otherwise undefined. */
  opened(): T | undefined
  /** Returns the part if it was made, or is being made; otherwise undefined. It loads nothing. */
  asked(): Promise<T> | undefined
}

/** Time after which a part is loaded that nobody has needed, in milliseconds. */
const idleMs = 1000

/**
 * Creates a door. `load` imports a file and makes the part, so that a start need not wait for it. A second later it is loaded
 * without being needed, because an update may replace the files while the program runs.
 */
export function createDoor<T>(load: () => Promise<T>): Door<T> {
  let part: T | undefined
  let loading: Promise<T> | undefined

  async function open(): Promise<T> {
    try {
      return (part = await load())
    } catch (error) {
      loading = undefined
      throw error
    }
  }

  const door = (): Promise<T> => (loading ??= open())
  // Who needs it then is told of the failure.
  setTimeout(() => void door().catch(() => {}), idleMs).unref()
  return Object.assign(door, { opened: () => part, asked: () => loading })
}
