import t from 'tap'
import { createRolloutLines } from '../../../lib/fleet/hub/rollout-lines.js'
import { defaultRolloutPolicy, type ListedRollout, type ListedRolloutNode } from '../../../lib/model/rollout.js'

const rollout: ListedRollout = {
  id: 'ro_a',
  projectId: 'proj_a',
  projectName: 'Site',
  number: 1,
  deployId: 'dep_a',
  treeSha256: '4f1a0000ffff',
  policy: { ...defaultRolloutPolicy, pause: 'approve' },
  state: 'preparing',
  wave: 0,
  lastAttempt: 1,
  waves: 2,
  pausedUntil: null,
  revertFrom: null,
  haltedReason: null,
  createdAt: '',
  endedAt: null,
  counts: {},
  nodeCount: 4
}

const node = (n: number, given: Partial<ListedRolloutNode> = {}): ListedRolloutNode => ({
  nodeId: `node_${n}`,
  nodeName: `plant-a${n}`,
  wave: n === 1 ? 1 : 2,
  phase: 'preparing',
  attempt: 1,
  swapAttempt: 0,
  hasBegun: false,
  error: null,
  updatedAt: '',
  isConnected: true,
  failedStep: null,
  output: null,
  tookMs: null,
  ...given
})

function openLines(given: { isResumed?: boolean } = {}) {
  const said: string[] = []
  const clock = { ms: 0 }
  const take = createRolloutLines({
    say: line => void said.push(line),
    archiveBytes: 300_000,
    nowMs: () => clock.ms,
    isResumed: given.isResumed ?? false
  })
  return { said, clock, take }
}

t.test('says what the nodes do, wave by wave, and how it can go on', t => {
  const { said, clock, take } = openLines()
  take({ type: 'rollout', rollout: { ...rollout, nodes: [1, 2, 3, 4].map(n => node(n)) } })
  clock.ms = 9100
  for (const n of [1, 2, 3, 4]) take({ type: 'node', node: node(n, { phase: 'prepared' }) })
  take({ type: 'state', rollout: { ...rollout, state: 'swapping', wave: 1 } })
  take({ type: 'node', node: node(1, { phase: 'good', tookMs: 2100 }) })
  take({ type: 'state', rollout: { ...rollout, state: 'approval', wave: 1 } })
  take({ type: 'state', rollout: { ...rollout, state: 'swapping', wave: 2 } })
  take({ type: 'node', node: node(2, { phase: 'good' }) })
  take({ type: 'node', node: node(3, { phase: 'good' }) })
  take({ type: 'node', node: node(4, { phase: 'failed', error: '/up answered 502' }) })
  const halted = { ...rollout, state: 'halted' as const, wave: 2, haltedReason: '1 failed (allowed: 0)' }
  take({ type: 'end', rollout: halted })
  t.same(said, [
    'Rollout ro_a of tree 4f1a0000…: 4 nodes, 2 waves',
    'prepare   4/4 ready (293 KB each, 9.10s)',
    'wave 1/2  plant-a1            ✓ good 2.10s',
    'approval  wave 2/2 waits for: svc rollout approve ro_a',
    'wave 2/2  plant-a2…4          ✓✓✗   plant-a4: /up answered 502',
    'halted: 1 failed (allowed: 0). plant-a1…3 have 4f1a0000…, plant-a4 has the earlier files',
    'next: svc rollout revert ro_a   or   svc rollout resume ro_a'
  ])
  t.end()
})

t.test('does not repeat what an earlier process has said', t => {
  const { said, take } = openLines({ isResumed: true })
  const nodes = [node(1, { phase: 'good' }), node(2, { phase: 'swapping' })]
  take({ type: 'rollout', rollout: { ...rollout, state: 'swapping', wave: 2, nodes } })
  take({ type: 'node', node: node(2, { phase: 'good', tookMs: 10 }) })
  take({ type: 'end', rollout: { ...rollout, state: 'done', wave: 2 } })
  t.same(said, ['wave 2/2  plant-a2            ✓ good 0.01s', 'done: plant-a1, plant-a2 have 4f1a0000…'])
  t.end()
})

t.test('counts the nodes of a large wave, and names the first faults', t => {
  const { said, take } = openLines({ isResumed: true })
  const nodes = Array.from({ length: 50 }, (_, n) =>
    node(n + 2, n < 7 ? { phase: 'failed', error: 'no space' } : { phase: 'good' })
  )
  take({ type: 'rollout', rollout: { ...rollout, state: 'swapping', wave: 2, nodes } })
  take({ type: 'end', rollout: { ...rollout, state: 'done', wave: 2 } })
  t.match(said[0], /^wave 2\/2 {2}plant-a2…51 +✓ 43 {2}✗ 7 {3}plant-a2: no space;.*; 2 more$/)
  t.end()
})

t.test('a series of names has no gap', t => {
  const { said, take } = openLines({ isResumed: true })
  const nodes = [1, 2, 4, 5].map(n => node(n, { phase: 'good' }))
  const failed = node(3, { phase: 'failed', swapAttempt: 1, error: 'no space' })
  take({ type: 'rollout', rollout: { ...rollout, state: 'swapping', wave: 2, nodes: [...nodes, failed] } })
  take({ type: 'end', rollout: { ...rollout, state: 'done', wave: 2 } })
  t.match(said.at(-1), /^done: 4 nodes have 4f1a0000…, plant-a3 /)
  t.end()
})
