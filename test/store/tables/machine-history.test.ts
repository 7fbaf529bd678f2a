import t from 'tap'
import type { MachineMinute } from '../../../lib/model/machine.js'
import {
  insertMachineMinutes,
  readMachineHistory,
  trimMachineHistory
} from '../../../lib/store/tables/machine-history.js'
import { aStore } from '../stage.js'

const instant = (minute: number): string => `2026-01-02T03:0${minute}:00.000Z`
const aMinute = (minute: number, cpu = minute): MachineMinute =>
  ({ at: instant(minute), cpu }) as unknown as MachineMinute
const all = { from: instant(0), to: instant(9) }

t.test(
  'reads minutes between two instants, oldest first; a second one of the same instant replaces the first',
  async t => {
    const store = await aStore(t)
    await store.write(tx => insertMachineMinutes(tx, [aMinute(3), aMinute(1), aMinute(2)]))
    await store.write(tx => insertMachineMinutes(tx, [aMinute(2, 99)]))
    t.strictSame(readMachineHistory(store, all), [aMinute(1), aMinute(2, 99), aMinute(3)])
    t.strictSame(readMachineHistory(store, { from: instant(2), to: instant(3) }), [aMinute(2, 99), aMinute(3)])
  }
)

t.test('keeps the minutes between two instants when trimming, and none of the future', async t => {
  const store = await aStore(t)
  await store.write(tx =>
    insertMachineMinutes(
      tx,
      [1, 2, 3, 4].map(minute => aMinute(minute))
    )
  )
  await store.write(tx => trimMachineHistory(tx, { from: instant(2), to: instant(3) }))
  t.strictSame(readMachineHistory(store, all), [aMinute(2), aMinute(3)])
})
