import t from 'tap'
import { Waiting } from '../../lib/fleet/waiting.js'
import type { NodePhase, RolloutNode } from '../../lib/model/rollout.js'
import { createRandom } from '../support/random.js'

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
