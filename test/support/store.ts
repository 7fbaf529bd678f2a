import './directories.js'
import { join } from 'node:path'
import { createAudit } from '../../lib/core/audit/audit.js'
import { randomIds } from '../../lib/base/digests.js'
import { openStore } from '../../lib/core/store/durable-store.js'
import type { Store } from '../../lib/core/store/database.js'
import { type CheckHeaders, createCheckHeaders, createVariablesKey } from '../../lib/projects/seal.js'
import { setClock } from './clock.js'
import { layDatabase } from './new-database.js'

/** Creates a store in a temporary directory with a settable clock, ids and an audit log. */
export async function openStage(t: { testdir(): string; teardown(work: () => unknown): void }) {
  const clock = setClock()
  const directory = t.testdir()
  await layDatabase(directory)
  const store = await openStore({ directory, clock })
  t.teardown(() => store.close())
  const audit = createAudit({
    store,
    clock,
    ids: randomIds,
    keepDays: () => 400,
    onError(error) {
      throw error
    }
  })
  return { directory, store, clock, ids: randomIds, audit, headers: headersIn(store, directory) }
}

/** Creates the access to the header values of checks, with the key in a directory. */
export function headersIn(store: Store, directory: string): CheckHeaders {
  const key = createVariablesKey(join(directory, 'variables.key'))
  const log = (_: string, error: unknown): void => {
    throw error
  }
  return createCheckHeaders({ store, key, log })
}
