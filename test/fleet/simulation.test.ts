import t from 'tap'
import { createSums, type SimulationReport } from '../support/fleet-report.js'
import { simulate } from '../support/fleet-simulation.js'
import { mutatedRules, type RuleMutation } from '../support/mutated-rules.js'
import { repetitions } from '../support/thorough.js'

/* Random histories of a fleet: nodes and hub crash, the network loses, doubles, delays, reorders and is cut, users act. */

const seeds = repetitions(40, 1000)

t.test(`${seeds} histories of 60 nodes keep what rollouts promise`, async t => {
  const { ends, sums, add } = createSums()
  for (let seed = 1; seed <= seeds; seed++) {
    const report = simulate(seed, 60)
    t.same(report.broken, [], `seed ${seed}`)
    add(report)
  }
  t.comment({ ...sums, ends })
  for (const end of ['done', 'halted', 'reverted', 'replaced']) t.ok((ends[end] ?? 0) > 0, `some rollouts end ${end}`)
  for (const [what, count] of Object.entries(sums)) if (what !== 'setBacks') t.ok(count > 0, `${what} happened`)
})

t.test('nodes that are set back to snapshots get what is desired, and go back if they should', async t => {
  let setBacks = 0
  for (let seed = 1; seed <= seeds; seed++) {
    const report = simulate(seed, 60, { hasSnapshots: true })
    t.same(report.broken, [], `seed ${seed}`)
    setBacks += report.setBacks
  }
  t.ok(setBacks > 0, `${setBacks}`)
})

t.test('the same seed is the same history', async t => {
  t.same(simulate(7, 60), simulate(7, 60))
  t.notSame(simulate(7, 60).messages, simulate(8, 60).messages)
})

/** Wrong rules, and what the simulation says about them; `from` is the first seed of those that few histories show. */
const mutations: ReadonlyArray<RuleMutation & { broken: RegExp; from?: number }> = [
  {
    what: 'nobody counts failures',
    module: 'machine',
    text: 'if (failures > maxFailures)',
    replacement: 'if (false)',
    broken: /nodes failed, \d+ may/
  },
  {
    what: 'a halt does not take back orders',
    module: 'machine',
    text: "this.#turn('halted');\n        this.#withdraw();",
    replacement: "this.#turn('halted');",
    broken: /was not told that others do not/
  },
  {
    what: 'a wave begins all nodes that wait',
    module: 'machine',
    text: 'this.#waiting.first(free)',
    replacement: 'this.#waiting.first(Infinity)',
    broken: /nodes (may )?begin at once/
  },
  {
    what: 'nodes of which nobody knows do not count in a wave',
    module: 'machine',
    text: 'this.#waveSize() - this.#unknown -',
    replacement: 'this.#waveSize() -',
    broken: /nodes (may )?begin at once/
  },
  {
    what: 'all waves begin at once',
    module: 'machine',
    text: 'this.#waiting.begin(wave)',
    replacement: 'this.#waiting.begin(Infinity)',
    broken: /of wave \d+ begins in wave/
  },
  {
    what: 'the next wave does not wait for nodes that had prepared late',
    module: 'machine',
    text: "else if (this.count('swapping') > 0)\n                    break;",
    replacement: '',
    broken: /begins before node_\d+ ended|was not told that others do not/
  },
  {
    what: 'a pause ends at once',
    module: 'machine',
    text: 'Date.parse(pausedUntil) - this.#needs.now()',
    replacement: '0',
    broken: /begins before the pause ended/
  },
  {
    what: 'numbers of rollouts count over restores of the hub',
    module: 'duty',
    text: 'const isSameHistory = state?.epoch === epoch',
    replacement: 'const isSameHistory = state !== null',
    broken: /nodes are open in the end|and has the tree|in the end/
  },
  {
    what: 'a restored hub repeats its open orders of a halted rollout',
    module: 'machine',
    text: "if (node.phase === 'swapping' || node.phase === 'reverting')",
    replacement: 'if (false)',
    broken: /begins, and was not told/
  },
  {
    what: 'nobody waits for an approval',
    module: 'machine',
    text: "return this.#turn('approval')",
    replacement: 'return this.#beginWave(rollout.wave + 1)',
    broken: /nobody approved wave/
  },
  {
    what: 'the hub takes answers to earlier orders',
    module: 'machine',
    text: 'const isLast = attempt === node.attempt;',
    replacement: 'const isLast = true;',
    broken: /and has the tree/
  },
  {
    what: 'the hub forgets which orders a removed node had',
    module: 'machine',
    text: 'attempt: lastAttempt,',
    replacement: 'attempt: 0,',
    broken: /nodes are open|is preparing|should have gone back|and has the tree/,
    from: 140
  },
  {
    what: 'a silent node counts as one with the earlier files',
    module: 'machine',
    text: "this.#move(node, 'unreachable');",
    replacement: "this.#move(node, 'pending');",
    broken: /begins, and is|and has the tree|is pending in the end/
  },
  {
    what: 'a late node with the release keeps it after all went back',
    module: 'machine',
    text: 'hasRelease && this.#goesBack(node) ?',
    replacement: 'false ?',
    broken: /should have gone back/
  },
  {
    what: 'a stuck node that tries again counts as one with the earlier files',
    module: 'machine',
    text: "(phase === 'preparing' || phase === 'prepared') && swapAttempt > 0",
    replacement: 'false',
    broken: /and has the tree|should have gone back/,
    from: 200
  },
  {
    what: 'a node that goes back while the rollout is resumed stays behind',
    module: 'machine',
    text: "this.#goesBack(node) || this.rollout.state === 'halted' ?",
    replacement: 'true ?',
    broken: /is reverted in the end/,
    from: 400
  },
  {
    what: 'a node obeys earlier orders',
    module: 'duty',
    text: 'attempt <= state.attempt',
    replacement: 'attempt === state.attempt',
    broken: /begins/
  },
  {
    what: 'a node obeys the rollout before the last one',
    module: 'duty',
    text: 'number <= state.number',
    replacement: 'number === state.number',
    broken: /in the end|neither its earlier tree|and has the tree|does not end|nodes are open|not told/
  },
  {
    what: 'a node that has begun says that it has not',
    module: 'duty',
    text: "return tried ?? 'held';",
    replacement: "return 'held';",
    broken: /and has the tree|begins, and is/
  },
  {
    what: 'a node takes the result of an earlier rollout for that of the newest',
    module: 'duty',
    text: 'if (begun.rolloutId !== state.rolloutId)',
    replacement: 'if (false)',
    broken: /has the tree/
  }
]

for (const { broken, from = 1, ...mutation } of mutations)
  t.test(`finds wrong rules: ${mutation.what}`, async t => {
    const rules = await mutatedRules(t.testdir({}), mutation)
    let report: SimulationReport | null = null
    for (let seed = from; seed < from + 1000 && (report === null || report.broken.length === 0); seed++)
      report = simulate(seed, 60, rules)
    t.match(report?.broken[0], broken)
    t.comment(report?.broken[0])
  })
