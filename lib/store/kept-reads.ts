import type { Store } from './database.js'

/**
 * A read by id whose results are kept until something is written: for what is asked again and again between two writes
 * (bench/api: a project costs 60 us to read and join, and nothing to be told again). Whoever gets a result must not
 * change it.
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
