/*
 * A fleet of thousands of nodes in a simulation: `node fleet.js [seconds] [nodes] [first seed]`. Each seed is a history of
 * rollouts with crashes and a network that loses, doubles, delays and reorders. Prints TAP.
 */
import t from 'tap'
import { simulate } from '../support/fleet-simulation.js'

const seconds = Number(process.argv[2] ?? 600)
const size = Number(process.argv[3] ?? 10_000)
const first = Number(process.argv[4] ?? 1)
t.setTimeout(0)
t.test(`histories of ${size} nodes for ${seconds} seconds`, { timeout: 0 }, async t => {
  const untilMs = performance.now() + seconds * 1000
  const ends: Record<string, number> = {}
  let seed = first
  let messages = 0
  for (; seed === first || performance.now() < untilMs; seed++) {
    const report = simulate(seed, size)
    for (const broken of report.broken.slice(0, 10)) t.comment(broken)
    t.equal(report.broken.length, 0, `seed ${seed}: ${report.rollouts} rollouts, ${report.crashes} crashes`)
    for (const [end, count] of Object.entries(report.ends)) ends[end] = (ends[end] ?? 0) + count
    messages += report.messages
  }
  t.comment({ seeds: seed - first, messages, ends })
})
