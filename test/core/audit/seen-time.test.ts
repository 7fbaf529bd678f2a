import t from 'tap'
import { createSteadyClock } from '../../../lib/base/clock.js'
import { seenTime } from '../../../lib/core/audit/seen-time.js'
import { insertAuditCheckpoint } from '../../../lib/core/store/tables/audit.js'
import { aStore } from '../store/stage.js'

const dayMs = 24 * 60 * 60_000
const first = Date.UTC(2026, 4, 10)
const day = (n: number): string => new Date(first + n * dayMs).toISOString()

t.test('a clock that is set back makes nothing younger', async t => {
  const store = await aStore(t)
  let ms = first
  const clock = createSteadyClock({ machine: () => ms, elapsed: () => 0 })
  const seen = () => seenTime(store, clock)
  t.equal(seen(), day(0), 'without a checkpoint')
  ms = first + 3 * dayMs
  t.equal(seen(), day(3), 'a clock that is set forward')
  ms = first
  t.equal(new Date(clock.now()).toISOString(), day(0), 'the clock itself follows its machine')
  t.equal(seen(), day(3), 'what it has shown before')

  await store.write(tx => insertAuditCheckpoint(tx, { size: 1, at: day(5), note: 'a' }, 2))
  // A clock that was set back signs later checkpoints with earlier times, until the first one is not kept any more.
  for (let size = 2; size < 8; size++)
    await store.write(tx => insertAuditCheckpoint(tx, { size, at: day(1), note: 'b' }, 2))
  t.equal(store.all('SELECT 1 FROM auditCheckpoints').length, 3, 'the newest two, and the latest')
  t.equal(seen(), day(5), 'what the audit log says')
  t.equal(seenTime(store, { now: () => first }), day(5), 'also after a start, which knows nothing else')
  t.equal(seenTime(store, { now: () => first + 9 * dayMs }), day(9))
  t.equal(seenTime(store, { now: () => first, isTrusted: true }), day(0), 'the owner says that the clock is right')
})
