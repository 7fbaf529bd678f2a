import t from 'tap'
import { nodeCount, planWaves, Waiting, waveSize } from '../../lib/fleet/waves.js'
import { defaultRolloutPolicy, type NodePhase, type RolloutNode } from '../../lib/model/rollout.js'
import { createRandom } from '../support/random.js'

const nodes = (count: number) =>
  Array.from({ length: count }, (_, at) => ({
    id: `node_${at}`,
    name: `n${String(at).padStart(3, '0')}`,
    labels: { zone: at % 2 === 0 ? 'b' : 'a' },
    isDrained: false
  }))

t.test('sizes are numbers or percentages, rounded up', async t => {
  t.equal(nodeCount('3', 10), 3)
  t.equal(nodeCount('25%', 10), 3)
  t.equal(nodeCount('0%', 10), 0)
  t.equal(nodeCount('100%', 7), 7)
  t.equal(waveSize({ then: '1%' }, 3), 1, 'a wave has at least one node')
})

t.test('the first wave is the canary', async t => {
  const { waves, nodes: placed } = planWaves(nodes(10), { ...defaultRolloutPolicy, canary: 1, then: '25%' })
  t.equal(waves, 4)
  t.same(
    placed.map(({ wave }) => wave),
    [1, 2, 2, 2, 3, 3, 3, 4, 4, 4]
  )
  t.same(
    placed.map(({ nodeId }) => nodeId),
    nodes(10).map(({ id }) => id)
  )
  t.ok(placed.every(({ phase, attempt }) => phase === 'pending' && attempt === 0))
})

t.test('a label sorts the nodes', async t => {
  const { nodes: placed } = planWaves(nodes(4), { ...defaultRolloutPolicy, order: 'zone' })
  t.same(
    placed.map(({ nodeId }) => nodeId),
    ['node_1', 'node_3', 'node_0', 'node_2']
  )
})

t.test('drained nodes are skipped, and count for no wave', async t => {
  const given = nodes(3).map(node => ({ ...node, isDrained: node.id === 'node_0' }))
  const { waves, nodes: placed } = planWaves(given, { ...defaultRolloutPolicy, then: '1' })
  t.equal(waves, 2)
  t.match(placed, [
    { nodeId: 'node_0', phase: 'skipped' },
    { nodeId: 'node_1', wave: 1 },
    { nodeId: 'node_2', wave: 2 }
  ])
  t.same(planWaves([], defaultRolloutPolicy), { waves: 1, nodes: [] })
})

function node(nodeId: string, wave: number, phase: NodePhase = 'preparing'): RolloutNode {
  return { nodeId, wave, phase, attempt: 0, swapAttempt: 0, hasBegun: false, error: null, updatedAt: '' }
}

const ids = (nodes: RolloutNode[]): string => nodes.map(({ nodeId }) => nodeId).join(' ')

t.test('finds prepared nodes of the waves that have begun, in the order of the rollout', async t => {
  const [a, b, c, d] = [node('a', 1), node('b', 1, 'prepared'), node('c', 2, 'prepared'), node('d', 1, 'prepared')]
  const waiting = new Waiting([a, b, c, d], 1)
  t.equal(waiting.size, 2)
  t.equal(ids(waiting.first(9)), 'b d')
  t.equal(ids(waiting.first(1)), 'b')
  t.equal(ids(waiting.first(-1)), '')
  waiting.move(b, 'swapping')
  t.equal(b.phase, 'swapping')
  t.equal(ids(waiting.first(9)), 'd')
  waiting.move(a, 'prepared')
  t.equal(ids(waiting.first(9)), 'a d', 'a node before the others')
  waiting.begin(2)
  t.equal(ids(waiting.first(9)), 'a c d')
  waiting.leave(a)
  t.equal(ids(waiting.first(9)), 'c d')
  waiting.join(node('a', 2, 'prepared'))
  t.equal(ids(waiting.first(9)), 'c d a', 'a node that comes again is the last one')
  t.equal(waiting.size, 3)
})

t.test('finds what a search through all nodes finds', async t => {
  const random = createRandom(1)
  const nodes = Array.from({ length: 40 }, (_, at) => node(String(at), 1 + Math.floor(at / 10)))
  let wave = 1
  const waiting = new Waiting(nodes, wave)
  for (let turn = 0; turn < 5000; turn++) {
    if (random.below(200) === 0) waiting.begin((wave = 1 + random.below(4)))
    waiting.move(random.oneOf(nodes), random.oneOf(['preparing', 'prepared', 'prepared', 'good']))
    const all = nodes.filter(node => node.phase === 'prepared' && node.wave <= wave)
    const count = random.below(12)
    if (waiting.size !== all.length || ids(waiting.first(count)) !== ids(all.slice(0, count)))
      t.fail(`turn ${turn}: ${ids(waiting.first(count))} instead of ${ids(all.slice(0, count))}`)
  }
})
