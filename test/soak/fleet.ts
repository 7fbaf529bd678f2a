/*
 * A fleet of thousands of nodes in a simulation: `node fleet.js [seconds] [nodes] [first seed] [seeds]`. Each seed is a
 * history of rollouts with crashes and a network that loses, doubles, delays, reorders and is cut. It ends after the time
 * or the seeds, whichever comes first. Prints TAP.
 */
import t from 'tap'
import { createSums } from '../support/fleet-report.js'
import { simulate } from '../support/fleet-simulation.js'

const [seconds = 600, size = 10_000, first = 1, seeds = Infinity] = process.argv.slice(2).map(Number)
t.setTimeout(0)
t.test(`histories of ${size} nodes for ${seconds} seconds`, { timeout: 0 }, async t => {
  const startMs = performance.now()
  const { ends, sums, add } = createSums()
  let [hours, broken, seed] = [0, 0, first]
  for (; seed < first + seeds && (seed === first || performance.now() - startMs < seconds * 1000); seed++) {
    const report = simulate(seed, size)
    for (const what of report.broken.slice(0, 10)) t.comment(`seed ${seed}: ${what}`)
    t.equal(report.broken.length, 0, `seed ${seed}: ${report.rollouts} rollouts, ${report.crashes} crashes`)
    add(report)
    hours += report.hours
    broken += report.broken.length
  }
  const processorSeconds = Math.round(process.cpuUsage().user / 1e6)
  const total = { seeds: seed - first, nodes: size, ...sums, ends, broken, virtualHours: Math.round(hours) }
  t.comment({ ...total, seconds: Math.round((performance.now() - startMs) / 1000), processorSeconds })
})
