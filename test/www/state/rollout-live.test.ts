import t from 'tap'
import type { ListedRolloutNode, RolloutEvent } from '../../../lib/model/rollout.js'
import { createLiveRollout, followRollout } from '../../../www/state/rollout-live.js'
import { rolloutOf } from '../../support/fleet-stand-in.js'

const project = { id: 'proj_a', name: 'a' }

t.test('events change the rollout and its nodes', async t => {
  const live = createLiveRollout()
  t.equal(live.rollout, undefined)
  t.same(live.waves(), [])
  const rollout = rolloutOf(project, [['swapping'], ['prepared', 'prepared']])
  live.take({ type: 'rollout', rollout })
  t.same(
    live.waves().map(({ counts }) => counts),
    [{ swapping: 1 }, { prepared: 2 }]
  )
  live.take({ type: 'node', node: { ...(rollout.nodes[0] as ListedRolloutNode), phase: 'good' } })
  t.same(live.waves()[0]?.counts, { good: 1 })
  const { nodes: _, ...listed } = rollout
  live.take({ type: 'state', rollout: { ...listed, wave: 2, counts: { good: 1, swapping: 2 } } })
  t.match(live.rollout, { wave: 2, counts: { good: 1 } })
  live.take({ type: 'node', node: { ...(rollout.nodes[0] as ListedRolloutNode), nodeId: 'node_9', wave: 3 } })
  t.equal(live.waves()[2]?.nodes.length, 1, 'a node that was placed later')
})

const lines = (events: readonly RolloutEvent[]): string => events.map(event => `${JSON.stringify(event)}\n`).join('')

t.test('follows over several connections until the end', async t => {
  const rollout = rolloutOf(project, [['good']])
  const { nodes: _, ...listed } = rollout
  const first = lines([{ type: 'rollout', rollout }])
  const last = lines([
    { type: 'rollout', rollout },
    { type: 'end', rollout: { ...listed, state: 'done' } }
  ])
  // The first answer is cut in a line; the second fails; the third is whole.
  const answers = [
    () => new Response(`${first}{"type":"st`),
    () => Promise.reject(new Error('network')),
    () => new Response(last)
  ]
  const seen: string[] = []
  await followRollout({
    open: async () => (answers.shift() as () => Response)(),
    onEvent: ({ type }) => void seen.push(type),
    onConnection: state => void seen.push(state),
    isFinal: () => false,
    signal: new AbortController().signal
  })
  t.same(seen, ['open', 'rollout', 'lost', 'lost', 'open', 'rollout', 'end'])
})

t.test('a refusal is final, and an abort ends it', async t => {
  const refused = new Error('refused')
  const needs = { onEvent() {}, onConnection() {}, isFinal: (error: unknown) => error === refused }
  await t.rejects(
    followRollout({ ...needs, open: () => Promise.reject(refused), signal: new AbortController().signal }),
    refused
  )
  const life = new AbortController()
  const following = followRollout({
    ...needs,
    open: signal =>
      new Promise((_, reject) => {
        signal.addEventListener('abort', () => reject(new Error('aborted')))
        life.abort()
      }),
    signal: life.signal
  })
  await following
})
