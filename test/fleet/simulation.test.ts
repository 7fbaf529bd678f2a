import t from 'tap'
import { simulate } from '../support/fleet-simulation.js'
import { repetitions } from '../support/thorough.js'

/* Random histories of a fleet: nodes and hub crash, and the network loses, doubles, delays and reorders. */

const seeds = repetitions(150, 1000)

t.test(`${seeds} histories of 60 nodes keep what rollouts promise`, async t => {
  const ends: Record<string, number> = {}
  const sums = { rollouts: 0, messages: 0, crashes: 0, hubCrashes: 0 }
  for (let seed = 1; seed <= seeds; seed++) {
    const report = simulate(seed, 60)
    t.same(report.broken, [], `seed ${seed}`)
    for (const [end, count] of Object.entries(report.ends)) ends[end] = (ends[end] ?? 0) + count
    for (const key of Object.keys(sums) as Array<keyof typeof sums>) sums[key] += report[key]
  }
  t.comment({ ...sums, ends })
  for (const end of ['done', 'halted', 'reverted']) t.ok((ends[end] ?? 0) > 0, `some rollouts end ${end}`)
  t.ok(sums.crashes > 0 && sums.hubCrashes > 0, 'something crashed')
})
