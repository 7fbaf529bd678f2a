import t from 'tap'
import {
  labelWords,
  liveWords,
  nodeColumns,
  nodeState,
  parsedLabel,
  placedLine,
  placementColumns,
  readLabels
} from '../../../lib/cli/fleet/nodes.js'
import { createPaint } from '../../../lib/cli/terminal/output.js'
import { renderTable } from '../../../lib/cli/terminal/columns.js'
import type { ListedNode, ListedPlacement } from '../../../lib/model/node.js'
import type { RolloutState } from '../../../lib/model/rollout.js'

const nowMs = Date.parse('2030-01-01T00:05:00Z')
const paint = createPaint({}, {})
const placement: ListedPlacement = {
  projectId: 'proj_a',
  projectName: 'shop',
  nodeId: 'node_a',
  nodeName: 'web-1',
  deployPath: '/srv/shop',
  liveDeployId: 'dep_a',
  liveTree: '4f1a'.repeat(16),
  seenAt: '2030-01-01T00:03:00Z',
  isDrifted: false
}
const node: ListedNode = {
  id: 'node_a',
  name: 'web-1',
  labels: { zone: 'eu', role: 'web' },
  publicKey: '',
  isDrained: false,
  enrolledAt: '2030-01-01T00:00:00Z',
  lastSeenAt: '2030-01-01T00:03:00Z',
  version: '1.2.3',
  freeBytes: 1024,
  sharedSince: null,
  isConnected: true,
  placements: [placement]
}

t.test('the state of a node names what keeps it from taking part', async t => {
  const cases: Array<[Partial<ListedNode>, string]> = [
    [{}, 'connected'],
    [{ isDrained: true }, 'connected, drained'],
    [{ sharedSince: '2030-01-01T00:03:00Z' }, 'connected, two machines use its identity'],
    [{ isConnected: false }, 'lost, seen 2m ago'],
    [{ isConnected: false, lastSeenAt: null, isDrained: true }, 'never connected, drained']
  ]
  for (const [given, expected] of cases) t.equal(nodeState({ ...node, ...given }, nowMs), expected)
})

t.test('what a node has of a project: a deployment of the hub, one of its own, or nothing', async t => {
  const cases: Array<[Partial<ListedPlacement>, string]> = [
    [{}, 'dep_a (tree 4f1a4f1a…)'],
    [{ isDrifted: true }, 'dep_a (tree 4f1a4f1a…), edited'],
    [{ liveDeployId: null, liveTree: null }, 'nothing yet'],
    [{ liveDeployId: null, isDrifted: true }, 'a deployment of its own']
  ]
  for (const [given, expected] of cases) t.equal(liveWords({ ...placement, ...given }), expected)
})

t.test('nodes and placements are tables', async t => {
  t.strictSame(renderTable([node], nodeColumns(paint, nowMs), undefined), [
    'NODE   STATE      LABELS            PROJECTS    FREE  VERSION',
    'web-1  connected  role=web zone=eu  shop      1.0 KB  1.2.3'
  ])
  t.strictSame(renderTable([placement], placementColumns(paint, nowMs), undefined), [
    'NODE   DIRECTORY  HAS                     SAID',
    'web-1  /srv/shop  dep_a (tree 4f1a4f1a…)  2m ago'
  ])
  t.equal(labelWords({}), '')
})

t.test('labels are read as key=value', async t => {
  t.same(readLabels(['zone=eu', 'beta=']), { zone: 'eu', beta: '' })
  t.throws(() => readLabels(['zone']), { code: 'usage', field: '--label' })
  t.equal(parsedLabel('zone=eu'), 'zone=eu')
  t.throws(() => parsedLabel('=eu'), { code: 'usage' })
})

t.test('says what nodes get that are added', async t => {
  const line = (state: RolloutState): string => placedLine({ id: 'ro_a', state, deployId: 'dep_a' })
  t.match(placedLine(undefined), /get the next push/)
  t.match(line('done'), 'The added nodes get dep_a, as rollout ro_a did.')
  for (const state of ['preparing', 'swapping', 'pausing', 'approval'] as const)
    t.match(line(state), 'The added nodes get dep_a with rollout ro_a.', state)
  t.match(
    line('halted'),
    /nothing yet: rollout ro_a is halted. Next: svc rollout revert ro_a {3}or {3}svc rollout resume ro_a$/
  )
  t.match(line('reverting'), /nothing yet: rollout ro_a is going back/)
  t.match(line('reverted'), /nothing yet: rollout ro_a was reverted.*Push again/)
})
