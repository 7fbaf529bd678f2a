import type { Store } from './database.js'

/**
 * Caches the results of a read by id until the next write. It is for reads that repeat between two writes (bench/api:
 * reading and joining a project takes 60 us, a cached one nothing). The caller must not change a result.
 */
export function keepReads<T>(store: Pick<Store, 'revision'>, read: (id: string) => T | undefined): typeof read {
  const kept = new Map<string, T>()
  let revision = -1
  return id => {
    if (store.revision() !== revision) {
      kept.clear()
      revision = store.revision()
    }
    const known = kept.get(id)
    if (known !== undefined) return known
    const found = read(id)
    if (found !== undefined) kept.set(id, found)
    return found
  }
}
