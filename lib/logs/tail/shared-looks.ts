/** Runs a check once for all followers of a file that need it at the same time. */
export interface SharedLooks {
  /**
   * Returns the result of `look`, or of one with the same key that is in progress. The result must not be older than
   * the last notice that the caller has seen, so the key contains the number of that notice.
   */
  <T>(key: string, look: () => Promise<T>): Promise<T>
}

/** Creates the shared checks. */
export function createSharedLooks(): SharedLooks {
  const underWay = new Map<string, Promise<unknown>>()
  return <T>(key: string, look: () => Promise<T>): Promise<T> => {
    const known = underWay.get(key) as Promise<T> | undefined
    if (known !== undefined) return known
    const begun = look().finally(() => underWay.delete(key))
    underWay.set(key, begun)
    return begun
  }
}
