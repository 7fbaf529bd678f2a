import t from 'tap'
import type { Test } from 'tap'
import { realDisk } from '../../../lib/core/store/disk.js'
import { openStore } from '../../../lib/core/store/durable-store.js'
import type { Store } from '../../../lib/core/store/database.js'
import { readSettings, writeSetting } from '../../../lib/core/store/tables/server.js'
import { createFaultyDisk, type FaultyDisk } from './stage.js'
import { repetitions } from '../../support/thorough.js'

/**
 * The disk fails at the 1st, 2nd, … n-th step of an operation, until the operation succeeds. Each time, the
 * acknowledged writes exist and the refused ones do not, now and after the store is opened again.
 */
const most = 60

interface Seen {
  acknowledged: string[]
  refused: string[]
}

async function writeOne(store: Store, key: string, seen: Seen): Promise<void> {
  await store
    .write(tx => writeSetting(tx, key, 'x'))
    .then(
      () => seen.acknowledged.push(key),
      () => seen.refused.push(key)
    )
}

function check(t: Test, settings: Record<string, string>, seen: Seen, when: string): void {
  const missing = seen.acknowledged.filter(key => !(key in settings))
  const ghosts = seen.refused.filter(key => key in settings)
  t.same({ missing, ghosts }, { missing: [], ghosts: [] }, when)
}

interface Fault {
  code: string
  share: number
  once: boolean
}

const faults: Fault[] = [
  { code: 'EIO', share: 0, once: true },
  { code: 'ENOSPC', share: 0.5, once: true },
  { code: 'EIO', share: 1, once: true },
  { code: 'ENOSPC', share: 0.9, once: false }
]

interface Operation {
  what: string
  run(store: Store, disk: FaultyDisk, seen: Seen): Promise<void>
}

const operations: Operation[] = [
  {
    what: 'one write',
    run: (store, _disk, seen) => writeOne(store, 'b', seen)
  },
  {
    what: 'several writes that share syncs',
    async run(store, _disk, seen) {
      const rounds = ['b', 'c', 'd'].map(key => writeOne(store, key, seen))
      await Promise.resolve()
      await Promise.all([...rounds, writeOne(store, 'e', seen)])
    }
  },
  {
    what: 'a checkpoint, with a write before it and one during it',
    async run(store, _disk, seen) {
      const before = writeOne(store, 'b', seen)
      const checkpoint = store.checkpoint().catch(() => {})
      await Promise.all([before, writeOne(store, 'c', seen), checkpoint])
    }
  }
]

/** Between the steps that fail. */
const stride = repetitions(4, 1)

for (const fault of faults) {
  for (const { what, run } of operations) {
    const how = `${fault.code}${fault.once ? '' : ' at every later step'}, ${fault.share * 100} % of the bytes written`
    t.test(`keeps acknowledged writes if the disk fails at each step of ${what} (${how})`, async t => {
      for (let step = 1; step <= most; step += stride) {
        const directory = t.testdir()
        const disk = createFaultyDisk(realDisk)
        const store = await openStore({ directory, disk })
        const seen: Seen = { acknowledged: [], refused: [] }
        await writeOne(store, 'a', seen)
        Object.assign(disk, fault, { steps: 0, failAt: step })
        await run(store, disk, seen)
        const wasReached = disk.steps >= step
        disk.failAt = 0
        if (seen.refused.length > 0) t.equal(store.state().ok, false, `step ${step}: the state says so`)
        await writeOne(store, 'z', seen)
        t.equal(seen.acknowledged.includes('z'), true, `step ${step}: the next write succeeds`)
        t.equal(store.state().ok, true, `step ${step}: and the state is good again`)
        check(t, readSettings(store), seen, `step ${step}: in memory`)
        // Like a start after a kill: a second store reads the disk, and the first one is not closed before.
        const again = await openStore({ directory })
        check(t, readSettings(again), seen, `step ${step}: opened again`)
        await again.close()
        await store.close()
        if (!wasReached) return
      }
      t.fail(`still failing at step ${most}`)
    })
  }
}

t.test('opens a new store if the disk fails at each step', async t => {
  for (let step = 1; step <= most; step += stride) {
    const directory = t.testdir()
    const disk = Object.assign(createFaultyDisk(realDisk), { failAt: step })
    const opened = await openStore({ directory, disk }).catch(() => null)
    await opened?.close()
    const again = await openStore({ directory })
    await again.write(tx => writeSetting(tx, 'a', 'x'))
    t.same(readSettings(again), { a: 'x' }, `step ${step}`)
    await again.close()
    if (disk.steps < step) return
  }
  t.fail(`still failing at step ${most}`)
})
