/** Something loaded from the server, and how that stands. `value` survives a failed reload. */
export interface Resource<T> {
  readonly value: T | undefined
  readonly error: unknown
  /** Loads, or loads again; an older request still on its way is given up. */
  load(): Promise<void>
  /** Puts in a value that is known without asking. */
  set(value: T): void
}

export interface ResourceOptions<T> {
  load: (signal: AbortSignal) => Promise<T>
  /** Called after each change. */
  onChange: () => void
  signal: AbortSignal
}

/** A value that a page shows, with its error. Only the newest request counts. */
export function createResource<T>({ load, onChange, signal }: ResourceOptions<T>): Resource<T> {
  let value: T | undefined
  let error: unknown
  let request: AbortController | undefined

  return {
    get value() {
      return value
    },
    get error() {
      return error
    },
    set(next) {
      value = next
      error = undefined
      onChange()
    },
    async load() {
      request?.abort()
      const mine = (request = new AbortController())
      const stop = (): void => mine.abort()
      signal.addEventListener('abort', stop)
      if (signal.aborted) stop()
      try {
        const next = await load(mine.signal)
        if (mine.signal.aborted) return
        value = next
        error = undefined
      } catch (reason) {
        if (mine.signal.aborted) return
        error = reason
      } finally {
        signal.removeEventListener('abort', stop)
      }
      onChange()
    }
  }
}
