import '../../../support/without-dom.js'
import t from 'tap'
import { defaultRolloutPolicy, nodePhases, type RolloutState, rolloutStates } from '../../../../lib/model/rollout.js'
import {
  actionsOf,
  countRows,
  createTreeColors,
  phaseOrder,
  policyRows,
  troubled
} from '../../../../www/elements/fleet/marks.js'
import { troubledPhases } from '../../../../lib/base/shared/api.js'
import { shortTree } from '../../../../www/elements/base/words.js'

t.test('a rollout that is going can be halted; one that was halted can be resumed', async t => {
  const counts = { good: 1, prepared: 3 }
  const actions: Record<RolloutState, string[]> = {
    preparing: ['halt', 'revert_wave', 'revert_all'],
    swapping: ['halt', 'revert_wave', 'revert_all'],
    pausing: ['halt', 'approve', 'revert_wave', 'revert_all'],
    approval: ['halt', 'approve', 'revert_wave', 'revert_all'],
    halted: ['resume', 'revert_wave', 'revert_all'],
    reverting: ['halt'],
    reverted: ['resume', 'revert_all'],
    done: ['revert_wave', 'revert_all']
  }
  for (const state of rolloutStates) t.same(actionsOf({ state, wave: 2, counts }), actions[state], state)
})

t.test('what no node has cannot be reverted, and the first wave is all that was done', async t => {
  t.same(actionsOf({ state: 'halted', wave: 0, counts: { failed: 1, prepared: 3 } }), ['resume'])
  t.same(actionsOf({ state: 'halted', wave: 1, counts: { good: 1 } }), ['resume', 'revert_all'])
  t.same(actionsOf({ state: 'halted', wave: 1, counts: { stuck: 1 } }), ['resume', 'revert_all'])
  t.same(actionsOf({ state: 'reverted', wave: 2, counts: { reverted: 4 } }), ['resume'])
})

t.test('the counts begin with what needs attention', async t => {
  t.same(
    countRows({ good: 5, failed: 1, pending: 2, stuck: 0 }).map(({ phase, count }) => [phase, count]),
    [
      ['failed', 1],
      ['pending', 2],
      ['good', 5]
    ]
  )
  t.same([...phaseOrder].sort(), [...nodePhases].sort(), 'every phase has a word')
})

t.test('a policy in words', async t => {
  t.same(Object.fromEntries(policyRows(defaultRolloutPolicy)), {
    'Nodes of the first wave': '1',
    'Size of further waves': '25%',
    'Between two waves': 'no pause',
    'Nodes that may fail': '0',
    'Nodes that may be unreachable': '0',
    'After that': 'Halt',
    'Order of the nodes': 'by name'
  })
  t.match(Object.fromEntries(policyRows({ ...defaultRolloutPolicy, pause: 90, then: '3', order: 'zone' })), {
    'Size of further waves': '3 nodes',
    'Between two waves': '1 min 30 s',
    'Order of the nodes': 'by label zone'
  })
  t.match(Object.fromEntries(policyRows({ ...defaultRolloutPolicy, pause: 'approve' })), {
    'Between two waves': 'an approval'
  })
})

t.test('each tree has a colour of its own, as long as there are colours', async t => {
  const colors = createTreeColors()
  const trees = Array.from({ length: 8 }, (_, index) => `tree${index}`)
  colors.assign(trees)
  const given = trees.map(tree => colors.of(tree))
  t.equal(new Set(given.slice(0, 6)).size, 6)
  t.same(given.slice(6), ['gray', 'gray'])
  t.equal(colors.of(null), 'gray')
  t.equal(colors.of('unknown'), 'gray')
})

t.test('a tree keeps its colour while it is shown, and gives it back afterwards', async t => {
  const colors = createTreeColors()
  colors.assign(['a', 'b'])
  const [a, b] = [colors.of('a'), colors.of('b')]
  colors.assign(['c', 'b', 'a'])
  t.same([colors.of('a'), colors.of('b')], [a, b])
  t.notOk([a, b].includes(colors.of('c')))
  colors.assign(['b', 'd'])
  t.equal(colors.of('b'), b)
  t.equal(colors.of('d'), a, 'the first free one')
})

t.test('a tree without a colour gets one as soon as one is free', async t => {
  const colors = createTreeColors()
  colors.assign(['a', 'b', 'c', 'd', 'e', 'f', 'g'])
  t.equal(colors.of('g'), 'gray')
  colors.assign(['b', 'c', 'd', 'e', 'f', 'g'])
  t.equal(colors.of('g'), 'blue')
})

t.test('the first eight digits name a tree', async t => {
  t.equal(shortTree('4f1a9c0d77c0be12'), '4f1a9c0d')
})

t.test('the server marks the same phases of a node as the panel', async t => {
  t.same([...troubled].sort(), [...troubledPhases].sort())
})
