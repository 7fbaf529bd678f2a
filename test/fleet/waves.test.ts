import t from 'tap'
import { nodeCount, planWaves, waveSize } from '../../lib/fleet/waves.js'
import { defaultRolloutPolicy } from '../../lib/model/rollout.js'

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
