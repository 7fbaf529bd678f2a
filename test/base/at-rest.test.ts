import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { collectGarbage, createRest } from '../../lib/base/at-rest.js'
import { until } from '../support/until.js'

/** A process whose memory is what `bytes` says, and that notes each collection. */
function aProcess() {
  const seen = { bytes: 100e6, collections: 0 }
  const worked = createRest({
    ms: 5,
    rssBytes: () => seen.bytes,
    collect: async () => {
      seen.collections++
      seen.bytes = 100e6
    }
  })
  return { seen, worked }
}

t.test('collects once after work that left something', async t => {
  const { seen, worked } = aProcess()
  seen.bytes = 200e6
  worked()
  await until(() => seen.collections === 1)
  for (let n = 0; n < 5; n++) {
    worked()
    await sleep(10)
  }
  t.equal(seen.collections, 1, 'not again while nothing has grown')
  seen.bytes = 150e6
  worked()
  await until(() => seen.collections === 2)
})

t.test('does nothing while there is much to do', async t => {
  const { seen, worked } = aProcess()
  seen.bytes = 200e6
  const endMs = performance.now() + 100
  while (performance.now() < endMs) {
    for (let n = 0; n < 50; n++) worked()
    await new Promise(resolve => setImmediate(resolve))
  }
  t.equal(seen.collections, 0)
  await until(() => seen.collections === 1)
})

t.test('a collection frees what nothing refers to', async t => {
  let held: object | null = { big: new Array(1e6).fill(1) }
  const weak = new WeakRef(held)
  t.ok(weak.deref())
  held = null
  await sleep(1)
  await collectGarbage()
  t.equal(weak.deref(), undefined)
})
