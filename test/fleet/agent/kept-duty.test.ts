import t from 'tap'
import { Refusal } from '../../../lib/base/errors.js'
import { keepDuty } from '../../../lib/fleet/agent/kept-duty.js'
import { obey } from '../../../lib/fleet/duty.js'
import type { Duty, DutyState } from '../../../lib/model/duty.js'
import { findDuty } from '../../../lib/store/tables/duties.js'
import { openStage } from '../../support/store.js'

const order = { epoch: 'e', rolloutId: 'ro_a', number: 1, attempt: 1, action: 'swap' } as const
const release = { deployId: 'dep_a', treeSha256: 't', archiveSha256: 'a', archiveBytes: 1 }
const noResult = { failedStep: null, output: null, tookMs: null }
const { state } = obey(null, order) as { state: DutyState }
const own = { projectId: 'proj_a', nodeId: 'node_a', isRemoved: false }
const duty: Duty = { ...own, state, before: null, release, swapId: null, undoId: null, ...noResult }

t.test('a change is in memory at once, and one that cannot be stored is taken back', async t => {
  const { store } = await openStage(t)
  let isFull = false
  const full = (): Promise<never> => Promise.reject(new Refusal('unavailable', 'disk_full', 'No room'))
  const kept = keepDuty({ write: work => (isFull ? full() : store.write(work)) }, duty)
  const writing = kept.write({ swapId: 'dep_1' })
  t.equal(kept.duty.swapId, 'dep_1')
  await writing
  t.match(findDuty(store, 'proj_a'), { swapId: 'dep_1' })

  isFull = true
  await t.rejects(kept.write({ swapId: 'dep_2' }), { code: 'disk_full' })
  t.equal(kept.duty.swapId, 'dep_1')
  const lost = kept.write({ swapId: 'dep_3' })
  isFull = false
  await Promise.all([kept.write({ output: 'later' }), lost.catch(() => {})])
  await kept.written()
  t.match(findDuty(store, 'proj_a'), kept.duty, 'memory and disk agree after a later change')
})
