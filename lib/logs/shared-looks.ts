/** What many followers of a file want to know at the same time, asked for once. */
export interface SharedLooks {
  /**
   * The result of `look`, or of one with the same key that is under way. What it finds must not be older than what the
   * asker has been told of: the key has the number of the notice that it follows.
   */
  <T>(key: string, look: () => Promise<T>): Promise<T>
}

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
