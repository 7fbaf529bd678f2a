import t from 'tap'
import { createAudit } from '../../lib/audit/audit.js'
import { randomIds } from '../../lib/base/ids.js'
import { systemActor } from '../../lib/model/audit.js'
import { openStore } from '../../lib/store/durable-store.js'
import { listAudit } from '../../lib/store/tables/audit.js'
import { setClock } from '../support/clock.js'

const dayMs = 24 * 60 * 60_000

t.test('entries', async t => {
  const clock = setClock()
  const store = await openStore({ directory: t.testdir(), clock })
  t.teardown(() => store.close())
  const errors: unknown[] = []
  const audit = createAudit({
    store,
    clock,
    ids: randomIds,
    onError: error => void errors.push(error),
    keepDays: () => 400
  })
  const all = () => listAudit(store, { limit: 500 })

  t.test('have every field', async t => {
    await audit.record({
      action: 'thing.done',
      actor: { name: 'admin', ip: '192.0.2.1' },
      target: 'x',
      projectId: 'proj_a'
    })
    t.match(all(), [
      {
        id: /^aud_/,
        at: '2030-01-01T00:00:00.000Z',
        action: 'thing.done',
        actor: 'admin',
        ip: '192.0.2.1',
        projectId: 'proj_a',
        target: 'x',
        detail: null,
        ok: true
      }
    ])
  })

  t.test('are stored exactly when their change is', async t => {
    const before = all().length
    const failing = store.write(tx => {
      audit.within(tx, { action: 'thing.failed', actor: systemActor })
      throw new Error('The change did not happen')
    })
    await t.rejects(failing, { message: /did not happen/ })
    t.equal(all().length, before)
    await store.write(tx =>
      audit.within(tx, { action: 'thing.happened', actor: systemActor, ok: false, detail: 'why' })
    )
    t.match(all()[0], { action: 'thing.happened', ok: false, detail: 'why', actor: 'system', ip: null })
  })

  t.test('are removed by age once a day, never by number', async t => {
    await store.write(tx => {
      for (let i = 0; i < 2000; i++)
        audit.within(tx, { action: 'thing.counted', actor: systemActor, target: String(i) })
    })
    t.ok(listAudit(store, { limit: 5000 }).length > 2000)
    let days = 400
    const kept = createAudit({
      store,
      clock,
      ids: randomIds,
      onError: error => void errors.push(error),
      keepDays: () => days
    })
    clock.advance(399 * dayMs)
    await kept.record({ action: 'thing.young', actor: systemActor })
    clock.advance(2 * dayMs)
    await kept.record({ action: 'thing.new', actor: systemActor })
    const left = (): string[] => all().map(({ action }) => action)
    t.same(left(), ['audit.trimmed', 'thing.new', 'thing.young'])
    t.match(all()[0], { actor: 'system', target: '1-2002', detail: '2002 older than 400 days', seq: 2005 })
    days = 1
    clock.advance(dayMs / 2)
    await kept.record({ action: 'thing.newer', actor: systemActor })
    t.equal(all().length, 4, 'nothing is removed half a day later')
    clock.advance(dayMs)
    await kept.record({ action: 'thing.newest', actor: systemActor })
    t.same(left(), ['audit.trimmed', 'thing.newest', 'thing.newer'])
    t.match(all()[0], { target: '1-2005', detail: '3 older than 1 day' })
  })

  t.test('reports an entry that cannot be stored without rejecting', async t => {
    const broken = createAudit({
      store: { write: () => Promise.reject(new Error('The disk is full')) },
      clock,
      ids: randomIds,
      onError: error => void errors.push(error),
      keepDays: () => 400
    })
    await broken.record({ action: 'thing.done', actor: systemActor })
    t.match(errors, [{ message: 'The disk is full' }])
  })
})
