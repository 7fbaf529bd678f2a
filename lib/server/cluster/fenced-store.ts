import { Refusal } from '../../base/errors.js'
import type { Store } from '../../store/database.js'

/** A store for the services of one term: the time in which a hub has the same role. */
export interface FencedStore extends Store {
  /** Refuses every further write, even if this hub becomes the leader again: other services write then. */
  fence(): void
}

/** Creates the store of a term. With `isReader`, it never writes. */
export function createFencedStore(store: Store, { isReader }: { isReader: boolean }): FencedStore {
  let isFenced = isReader
  return {
    get: (sql, ...values) => store.get(sql, ...values),
    all: (sql, ...values) => store.all(sql, ...values),
    write: async work => {
      if (isFenced) throw notLeader()
      return store.write(work)
    },
    state: () => store.state(),
    revision: () => store.revision(),
    sequence: () => store.sequence(),
    syncs: () => store.syncs(),
    follow: table => store.follow(table),
    version: tables => store.version(tables),
    checkpoint: () => store.checkpoint(),
    image: at => store.image(at),
    close: () => store.close(),
    fence: () => void (isFenced = true)
  }
}

/** Returns the refusal of a write on a hub that is not the leader. */
export function notLeader(): Refusal {
  const sentence = 'This hub is not the leader of the cluster, so it changes nothing. Try again in a moment'
  return new Refusal('unavailable', 'not_leader', sentence, { retryAfterSeconds: 2 })
}

/** Whether an error only says that another hub leads. */
export function isOfRole(error: unknown): boolean {
  return error instanceof Refusal && (error.code === 'not_leader' || error.code === 'no_leader')
}
