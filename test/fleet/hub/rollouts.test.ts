import t from 'tap'
import { listAudit } from '../../../lib/core/store/tables/audit.js'
import { answerOf, beginRollout } from '../../support/fleet-rollout.js'
import { ana, openFleet } from '../../support/fleet-stage.js'
import {
  defaultRolloutPolicy,
  type RolloutEvent,
  type ListedRollout,
  type ListedRolloutNode
} from '../../../lib/model/rollout.js'
import { createRolloutLines } from '../../../lib/fleet/hub/rollouts.js'

t.test('goes through the waves, waiting for approvals', async t => {
  const stage = await openFleet(t, ['a', 'b'])
  const { hub } = stage
  const id = await beginRollout(stage, { pause: 'approve' })
  const answer = (nodeId: string, answer: 'prepared' | 'good') =>
    hub.agents.report(nodeId, answerOf(stage, { id, nodeId, answer }))
  await t.rejects(hub.rollouts.approve(id, ana), { code: 'rollout_state' })
  await answer('node_a', 'prepared')
  await answer('node_b', 'prepared')
  t.match(hub.rollouts.get(id), { state: 'swapping', wave: 1, counts: { swapping: 1, prepared: 1 } })
  await answer('node_a', 'good')
  t.match(hub.rollouts.get(id), { state: 'approval' })
  t.match(await hub.rollouts.approve(id, ana), { state: 'swapping', wave: 2 })
  await answer('node_b', 'good')
  t.match(hub.rollouts.get(id), { state: 'done', counts: { good: 2 } })
  t.ok(hub.rollouts.get(id).endedAt)
  for (const refused of [hub.rollouts.halt(id, null, ana), hub.rollouts.resume(id, ana)])
    await t.rejects(refused, { code: 'rollout_state' })
  t.match(await hub.rollouts.revert(id, 2, ana), { state: 'reverting', revertFrom: 2 })
  t.match(hub.rollouts.node(id, 'plant-b'), { phase: 'reverting' })
  t.match(hub.rollouts.node(id, 'plant-a'), { phase: 'good' })
})

t.test('goes back again only while a node is stuck', async t => {
  const stage = await openFleet(t, ['a'])
  const { hub } = stage
  const id = await beginRollout(stage)
  const answer = (answer: 'prepared' | 'good' | 'stuck' | 'reverted') =>
    hub.agents.report('node_a', answerOf(stage, { id, nodeId: 'node_a', answer }))
  for (const each of ['prepared', 'good'] as const) await answer(each)
  await hub.rollouts.revert(id, null, ana)
  await t.rejects(hub.rollouts.revert(id, null, ana), { code: 'rollout_state' }, 'it is going back')
  await answer('stuck')
  t.match(hub.rollouts.get(id), { state: 'reverted', counts: { stuck: 1 } })
  t.match(await hub.rollouts.revert(id, null, ana), { state: 'reverting', counts: { reverting: 1 } })
  await answer('reverted')
  await t.rejects(hub.rollouts.revert(id, null, ana), { code: 'rollout_state' })
})

t.test('halts and resumes, and records who did', async t => {
  const stage = await openFleet(t, ['a'])
  const { hub, store } = stage
  const id = await beginRollout(stage)
  t.match(await hub.rollouts.halt(id, 'the wrong tree', ana), {
    state: 'halted',
    haltedReason: 'ana stopped it: the wrong tree'
  })
  t.match(await hub.rollouts.resume(id, ana), { state: 'preparing', haltedReason: null })
  t.same(
    listAudit(store, { limit: 3 }).map(({ action, actor, target, detail }) => [action, actor, target, detail]),
    [
      ['rollout.resume', 'token:ana', id, null],
      ['rollout.halt', 'token:ana', id, 'the wrong tree'],
      ['rollout.start', 'system', id, 'deployment dep_a']
    ]
  )
  t.equal(hub.rollouts.projectOf(id), 'proj_a')
  t.equal(hub.rollouts.projectOf('ro_x'), undefined)
  for (const unknown of [() => hub.rollouts.get('ro_x'), () => hub.rollouts.node(id, 'plant-x')])
    t.throws(unknown, { code: 'not_found' })
})

const release = {
  projectId: 'proj_a',
  deployId: 'dep_a',
  treeSha256: 'tree',
  archiveSha256: 'archive',
  archiveBytes: 100,
  policy: defaultRolloutPolicy,
  offer: { offered: { origin: 'upload' as const, postDeploy: 'echo on' }, clientEnv: { A: 'b' } },
  rollbackOf: null,
  actor: ana
}

t.test('follows a rollout to its end, and again after it was given up', async t => {
  const stage = await openFleet(t, ['a'])
  const { hub } = stage
  const stop = new AbortController()
  const lines: string[] = []
  const watch = { say: (line: string) => void lines.push(line), signal: stop.signal }
  const first = hub.rolls.begin(release, watch)
  while (lines.length === 0) await new Promise(resolve => setImmediate(resolve))
  stop.abort(new Error('enough'))
  await t.rejects(first, /enough/)
  const id = hub.rollouts.list({ limit: 1 })[0]?.id as string
  t.equal(hub.rollouts.get(id).state, 'preparing', 'the rollout continues')
  const again = hub.rolls.follow('dep_a', { ...watch, signal: new AbortController().signal })
  for (const answer of ['prepared', 'good'] as const)
    await hub.agents.report('node_a', answerOf(stage, { id, nodeId: 'node_a', answer }))
  t.same(await again, { outcome: 'done', sentence: 'rolled out to 1 node' })
  t.same(stage.done, ['dep_a'])
  await hub.rollouts.revert(id, null, ana)
  await hub.agents.report('node_a', answerOf(stage, { id, nodeId: 'node_a', answer: 'reverted' }))
  t.equal(hub.rollouts.get(id).state, 'reverted')
  t.same(stage.done, ['dep_a', 'dep_a reverted'], 'its deployment is no success any more')
  const rollback = { ...release, deployId: 'dep_b', rollbackOf: 'dep_a', offer: { ...release.offer, clientEnv: {} } }
  const second = hub.rolls.begin(rollback, { ...watch, signal: new AbortController().signal })
  while (hub.rollouts.list({ limit: 1 })[0]?.deployId !== 'dep_b') await new Promise(resolve => setImmediate(resolve))
  const { json } = await hub.agents.document({ nodeId: 'node_a', session: 's', counter: 1, protocol: 2 }, 'dep_b')
  t.match(JSON.parse(json), { clientEnv: { A: 'b' }, offered: { origin: 'source deployment', postDeploy: 'echo on' } })
  await hub.rolls.halt('dep_b', 'Cancelled by ana')
  t.match(await second, { outcome: 'halted', sentence: /was halted: Cancelled by ana/ })
  await hub.rolls.halt('dep_x', 'nothing happens')
})

t.test('refuses a rollout without a node that takes part', async t => {
  const { hub } = await openFleet(t, ['a'])
  await hub.nodes.drain('node_a', true, ana)
  const watch = { say() {}, signal: new AbortController().signal }
  await t.rejects(hub.rolls.begin(release, watch), { code: 'no_nodes' })
})

t.test('yields the rollout, what changes, and the end', async t => {
  const stage = await openFleet(t, ['a', 'b'])
  const { hub } = stage
  const id = await beginRollout(stage)
  const events = hub.rollouts.follow(id, new AbortController().signal)[Symbol.asyncIterator]()
  const next = async (): Promise<RolloutEvent> => (await events.next()).value as RolloutEvent
  t.match(await next(), { type: 'rollout', rollout: { state: 'preparing', nodes: [{}, {}] } })
  t.equal(hub.figures().followers, 1)
  await hub.agents.report('node_a', answerOf(stage, { id, nodeId: 'node_a', answer: 'prepared' }))
  t.match(await next(), { type: 'node', node: { nodeName: 'plant-a', phase: 'prepared' } })
  t.match(await next(), { type: 'state', rollout: { counts: { prepared: 1, preparing: 1 } } })
  await hub.agents.report('node_b', answerOf(stage, { id, nodeId: 'node_b', answer: 'prepared' }))
  await hub.rollouts.halt(id, null, ana)
  const rest: RolloutEvent[] = []
  for (;;) {
    const { value, done } = await events.next()
    if (done) break
    rest.push(value as RolloutEvent)
  }
  t.match(rest.at(-1), { type: 'end', rollout: { state: 'halted' } })
  const names = rest.flatMap(event => (event.type === 'node' ? event.node.nodeName : []))
  t.same(names.sort(), ['plant-a', 'plant-b'], 'a slow follower gets each node once')
  t.equal(hub.figures().followers, 0)
})

t.test('ends at once for a rollout that has ended, and when it is given up', async t => {
  const stage = await openFleet(t, ['a'])
  const { hub } = stage
  const id = await beginRollout(stage)
  const stop = new AbortController()
  const events = hub.rollouts.follow(id, stop.signal)[Symbol.asyncIterator]()
  await events.next()
  const waiting = events.next()
  stop.abort(new Error('enough'))
  await t.rejects(waiting, /enough/)
  await hub.rollouts.halt(id, null, ana)
  const types: string[] = []
  for await (const { type } of hub.rollouts.follow(id, new AbortController().signal)) types.push(type)
  t.same(types, ['rollout', 'end'])
  t.throws(() => hub.rollouts.follow('ro_x', stop.signal), { code: 'not_found' })
})

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
  take({ type: 'node', node: node(2, { phase: 'stuck' }) })
  take({ type: 'end', rollout: { ...rollout, state: 'reverted', wave: 2 } })
  t.equal(said.at(-1), 'next: svc rollout revert ro_a')
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
