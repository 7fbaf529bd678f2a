import t from 'tap'
import { afterEvent, followRollout } from '../../../lib/cli/fleet/rollout-follow.js'
import { streamBroken } from '../../../lib/cli/client/streams.js'
import { Refusal } from '../../../lib/base/errors.js'
import type { RolloutDetail, RolloutEvent } from '../../../lib/model/rollout.js'
import { rolloutDetail, rolloutNode } from '../../support/a-rollout.js'

const begun = rolloutDetail([rolloutNode('web-1'), rolloutNode('web-2', { wave: 2 })])
const { nodes: _, ...listed } = begun

/** Follows streams, one after the other; the last event of each is followed by its error. */
function following(streams: Array<[RolloutEvent[], Error | null]>) {
  const shown: RolloutDetail[] = []
  const given = {
    rolloutId: 'ro_a',
    fleet: {
      async *follow() {
        const [events, error] = streams.shift() ?? [[], null]
        yield* events
        if (error !== null) throw error
      }
    },
    view: { show: (rollout: RolloutDetail) => void shown.push(rollout), end: () => {} },
    signal: new AbortController().signal
  }
  return { given, shown }
}

t.test('a node that changes is replaced, and the numbers follow', async t => {
  t.equal(afterEvent(null, { type: 'state', rollout: listed }), null)
  const after = afterEvent(begun, { type: 'node', node: rolloutNode('web-1', { phase: 'good' }) })
  t.match(after, { counts: { good: 1, prepared: 1 }, nodeCount: 2, nodes: [{ phase: 'good' }, { phase: 'prepared' }] })
  const added = afterEvent(begun, { type: 'node', node: rolloutNode('web-3', { wave: 2 }) })
  t.match(added, { nodeCount: 3, counts: { prepared: 3 } })
  t.match(afterEvent(begun, { type: 'state', rollout: { ...listed, state: 'halted' } }), {
    state: 'halted',
    nodes: { length: 2 }
  })
})

t.test('follows to the end, over a lost connection', async t => {
  const { given, shown } = following([
    [[{ type: 'rollout', rollout: begun }], streamBroken()],
    [
      [
        { type: 'rollout', rollout: begun },
        { type: 'state', rollout: { ...listed, wave: 2 } },
        { type: 'end', rollout: { ...listed, state: 'done' } }
      ],
      null
    ]
  ])
  t.match(await followRollout(given), { state: 'done', nodes: { length: 2 } })
  t.equal(shown.length, 4)
})

t.test('ends when it has what it waits for, and throws what reconnecting cannot cure', async t => {
  const first = following([[[{ type: 'rollout', rollout: { ...begun, state: 'approval' } }], streamBroken()]])
  t.match(await followRollout({ ...first.given, until: ({ state }) => state === 'approval' }), { state: 'approval' })
  const gone = following([[[], new Refusal('not_found', 'not_found', 'Rollout not found: "ro_a"')]])
  await t.rejects(followRollout(gone.given), { code: 'not_found' })
})

t.test('throws the reason of the signal', async t => {
  const controller = new AbortController()
  const { given } = following([[[{ type: 'rollout', rollout: begun }], streamBroken()]])
  const reason = new Error('interrupted')
  const running = followRollout({ ...given, signal: controller.signal })
  setImmediate(() => controller.abort(reason))
  await t.rejects(running, reason)
})
