/*
 * One duty of a node, in memory and in the database. A change is in memory at once; one that cannot be stored, because the
 * disk is full, is taken back.
 */
import type { Duty } from '../../model/duty.js'
import type { Store, Transaction } from '../../store/database.js'
import { putDuty } from '../../store/tables/duties.js'

/** A duty that is kept. */
export interface KeptDuty {
  readonly duty: Duty
  /** Changes the duty, in memory at once. Resolves when it is on the disk; if that fails, the duty is as before. */
  write(change: Partial<Duty>, also?: (tx: Transaction) => void): Promise<unknown>
  /** Resolves when the writes until now have ended, well or not. */
  written(): Promise<unknown>
}

/** Keeps a duty, which need not be stored yet. */
export function keepDuty(store: Pick<Store, 'write'>, first: Duty): KeptDuty {
  let duty = first
  let written: Promise<unknown> = Promise.resolve()
  return {
    get duty() {
      return duty
    },
    write(change, also) {
      const before = duty
      const next = { ...before, ...change }
      duty = next
      const writing = store.write(tx => {
        putDuty(tx, next)
        also?.(tx)
      })
      const restore = (): void => void (duty === next && (duty = before))
      written = Promise.allSettled([written, writing.catch(restore)])
      return writing
    },
    written: () => written
  }
}
