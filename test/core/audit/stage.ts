import { join } from 'node:path'
import { createAudit, type Audit } from '../../../lib/core/audit/audit.js'
import { Keeper } from '../../../lib/core/audit/keeper.js'
import { randomIds } from '../../../lib/base/digests.js'
import type { Actor } from '../../../lib/model/audit.js'
import type { Store } from '../../../lib/core/store/database.js'
import { openStore } from '../../../lib/core/store/durable-store.js'
import type { StoredCheckpoint } from '../../../lib/core/store/tables/audit.js'
import { setClock } from '../../support/clock.js'
import { createServerKey } from '../../../lib/core/audit/signed-note.js'

/** The actor of the entries. */
export const admin: Actor = { name: 'admin', ip: '192.0.2.1', role: 'admin' }

/** An audit log with its tree and its keeper. */
export interface Log {
  store: Store
  clock: ReturnType<typeof setClock>
  audit: Audit
  keeper: Keeper
  /** The checkpoints that were signed. */
  signed: StoredCheckpoint[]
  errors: unknown[]
  /** Writes this number of entries. */
  fill(count: number): Promise<void>
  /** Ends the keeper and the store. */
  close(): Promise<void>
}

/** Opens the audit log in a directory, as a start of the server does. */
export async function openLog(directory: string, { keepDays = 400 } = {}): Promise<Log> {
  const clock = setClock()
  const store = await openStore({ directory, clock })
  const [errors, signed]: [unknown[], StoredCheckpoint[]] = [[], []]
  const onError = (error: unknown): void => void errors.push(error)
  const common = { store, clock, ids: randomIds, onError }
  const onLeaf = (size: number): void => keeper.consider(size)
  const audit = createAudit({ ...common, keepDays: () => keepDays, onLeaf })
  const key = createServerKey(join(directory, 'keys'))
  const keeper: Keeper = new Keeper({ ...common, key, onCheckpoint: async given => void signed.push(given) })
  let written = 0
  return {
    store,
    clock,
    audit,
    keeper,
    signed,
    errors,
    async fill(count) {
      await store.write(tx => {
        for (let n = 0; n < count; n++)
          audit.within(tx, { action: 'thing.done', actor: admin, target: String(++written) })
      })
    },
    async close() {
      await keeper.stop()
      await store.close()
    }
  }
}
