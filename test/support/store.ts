import './directories.js'
import { createAudit } from '../../lib/audit/audit.js'
import { randomIds } from '../../lib/base/ids.js'
import { openStore } from '../../lib/store/durable-store.js'
import { setClock } from './clock.js'

/** Creates a store in a temporary directory with a settable clock, ids and an audit log. */
export async function openStage(t: { testdir(): string; teardown(work: () => unknown): void }) {
  const clock = setClock()
  const directory = t.testdir()
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
  return { directory, store, clock, ids: randomIds, audit }
}
