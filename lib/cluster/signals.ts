/** Creates a signal that has not been fired. */
export function createSignal() {
  const fired = new AbortController()
  return {
    fire: (): void => fired.abort(),

    /** Resolves once it was fired, or when the signal aborts. */
    wait: (signal: AbortSignal): Promise<void> =>
      new Promise(resolve => {
        const end = () => {
          fired.signal.removeEventListener('abort', end)
          signal.removeEventListener('abort', end)
          resolve()
        }
        fired.signal.addEventListener('abort', end)
        signal.addEventListener('abort', end)
        if (fired.signal.aborted || signal.aborted) end()
      })
  }
}

/** Resolves when the signal aborts. */
export function aborted(signal: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })
}

/** Changes that are waited for. */
export type Changes = ReturnType<typeof createChanges>

/** Creates changes that nobody waits for yet. */
export function createChanges() {
  const waiting = new Set<() => void>()
  return {
    /** To be called after each change. */
    happened(): void {
      for (const check of waiting) check()
    },

    /** Resolves when `look`, which is called after each change, returns true. Rejects with the reason of the signal. */
    until: (look: () => boolean, signal: AbortSignal): Promise<void> =>
      new Promise((resolve, reject) => {
        const end = () => {
          waiting.delete(check)
          signal.removeEventListener('abort', check)
        }
        const check = () => {
          try {
            signal.throwIfAborted()
            if (!look()) return
            resolve()
          } catch (error) {
            reject(error as Error)
          }
          end()
        }
        waiting.add(check)
        signal.addEventListener('abort', check)
        check()
      })
  }
}

/** Resolves after this time, or earlier when the signal aborts: never rejects. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    const end = () => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', end)
      resolve()
    }
    const timer = setTimeout(end, ms)
    signal?.addEventListener('abort', end)
    if (ms <= 0 || signal?.aborted === true) end()
  })
}

/** Returns a function that runs one piece of work at a time. */
export function createTurns(): <T>(work: () => Promise<T>) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve()
  return work => {
    const turn = last.then(work)
    last = turn.catch(() => {})
    return turn
  }
}
