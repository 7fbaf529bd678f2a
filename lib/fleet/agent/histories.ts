/* The histories of the hub's database that a node has seen: in memory at once, and in the database with the order. */
import type { Reader, Transaction } from '../../store/database.js'
import { beginEpoch, listEpochs } from '../../store/tables/cluster.js'

/** The histories that a node has seen. */
export type Histories = ReturnType<typeof createHistories>

/** Creates the list, with those of the store. */
export function createHistories(store: Reader) {
  const all = listEpochs(store)
  return {
    /** Whether a hub has followed another history since. */
    isReplaced: (epoch: string): boolean => all.includes(epoch) && all.at(-1) !== epoch,
    /** Returns the history of what was ordered before histories had names, if an order of `epoch` arrives. */
    first: (epoch: string): string => all[0] ?? epoch,
    /** Follows a history from now on. Returns what writes it. */
    follow(epoch: string): (tx: Transaction) => void {
      if (!all.includes(epoch)) all.push(epoch)
      return tx => beginEpoch(tx, epoch)
    }
  }
}
