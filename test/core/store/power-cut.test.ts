import t from 'tap'
import type { Test } from 'tap'
import { setImmediate as turn } from 'node:timers/promises'
import { openStore } from '../../../lib/core/store/durable-store.js'
import { readSettings, writeSetting } from '../../../lib/core/store/tables/server.js'
import { createPowerCutDisk, type PowerCutDisk } from './power-cut-disk.js'
import { repetitions } from '../../support/thorough.js'

const directory = '/data'
const cutsEach = 3
const mostSteps = 120
const writers = 3

/** Returns the same numbers for the same seed, so that a failure can be reproduced. */
function chanceOf(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return state / 2 ** 32
  }
}

/** Writes until the power fails; returns the number of the last acknowledged write. */
async function writeUntilCut(disk: PowerCutDisk, from: number, mostBytes: number): Promise<number> {
  let acknowledged = from
  let n = from
  const store = await Promise.race([
    openStore({ directory, disk, foldBytes: 5 * mostBytes, idleMs: 1 }),
    powerless(disk)
  ])
  if (store === null) return from
  const write = async () => {
    for (;;) {
      const mine = ++n
      await store.write(tx => {
        writeSetting(tx, `n${mine}`, 'x'.repeat((mine * 137) % mostBytes))
        writeSetting(tx, 'last', String(mine))
      })
      acknowledged = Math.max(acknowledged, mine)
    }
  }
  for (let writer = 0; writer < writers; writer++) void write()
  await powerless(disk)
  return acknowledged
}

async function powerless(disk: PowerCutDisk): Promise<null> {
  while (disk.stepsLeft > 0) await turn()
  // Lets pending operations settle.
  for (let turns = 0; turns < 5; turns++) await turn()
  return null
}

async function cutAgainAndAgain(t: Test, runs: number, mostBytes: number): Promise<void> {
  let writes = 0
  for (let seed = 1; seed <= runs; seed++) {
    const chance = chanceOf(seed)
    let disk = createPowerCutDisk()
    let acknowledged = 0
    for (let cut = 0; cut < cutsEach; cut++) {
      disk.stepsLeft = Math.floor(chance() * mostSteps)
      acknowledged = await writeUntilCut(disk, acknowledged, mostBytes)
      disk = disk.afterPowerCut(chance)
      const { rows, last } = await present(disk)
      const when = `seed ${seed}, cut ${cut}`
      if (rows < acknowledged) t.fail(`${when}: ${acknowledged} were acknowledged, ${rows} exist`)
      if (rows !== last) t.fail(`${when}: a write is incomplete`)
      writes += rows - acknowledged
      acknowledged = rows
    }
    writes += acknowledged
  }
  t.ok(writes > runs * cutsEach, `${writes} writes`)
}

t.test('keeps every acknowledged write complete after power cuts that keep any part of the unsynced data', t =>
  cutAgainAndAgain(t, repetitions(3, 16), 3000)
)

t.test('keeps them, too, if svc.db is written in many pieces and changes meanwhile', t =>
  cutAgainAndAgain(t, repetitions(2, 8), 137_000)
)

/** Returns what a start finds: on a copy, which is closed normally and opened once more. */
async function present(disk: PowerCutDisk): Promise<{ rows: number; last: number }> {
  const copy = disk.afterPowerCut(() => 0)
  await (await openStore({ directory, disk: copy })).close()
  const store = await openStore({ directory, disk: copy })
  const { last = '0', ...rows } = readSettings(store)
  await store.close()
  return { rows: Object.keys(rows).length, last: Number(last) }
}
