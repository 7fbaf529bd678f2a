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
} from '../../lib/cli/fleet-view.js'
import { createPaint } from '../../lib/cli/terminal/output.js'
import { renderTable } from '../../lib/cli/terminal/columns.js'
import type { ListedNode, ListedPlacement } from '../../lib/model/node.js'
import type { RolloutState, ListedRollout } from '../../lib/model/rollout.js'
import { countWords, errorLine, nameRanges, rolloutLines, stateWords, wavesOf } from '../../lib/cli/fleet-view.js'
import { rolloutDetail, rolloutNode } from '../support/a-rollout.js'

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

const nowMsOfWaveView = Date.parse('2030-01-01T00:00:00Z')

t.test('each wave is a line with its nodes, a sign for each, and the numbers of its phases', async t => {
  const rollout = rolloutDetail(
    [
      rolloutNode('web-1', { phase: 'good' }),
      rolloutNode('web-2', { wave: 2, phase: 'good' }),
      rolloutNode('web-3', { wave: 2, phase: 'failed', error: 'answered 502\n!', failedStep: 'check' }),
      rolloutNode('web-4', { wave: 2, phase: 'unreachable' }),
      rolloutNode('web-5', { wave: 3 })
    ],
    { state: 'halted', wave: 2, haltedReason: '1 failed (allowed: 0)' }
  )
  t.strictSame(rolloutLines(rollout, { paint, nowMs: nowMsOfWaveView }), [
    'Rollout ro_a of shop, tree 4f1a4f1a…: 5 nodes, 3 waves',
    'halted: 1 failed (allowed: 0)',
    '',
    'wave 1/3  web-1  ✓  1 good',
    'wave 2/3  web-2…4  ✓✗?  1 failed, 1 unreachable, 1 good',
    'wave 3/3  web-5  ●  1 prepared',
    '',
    '✗ web-3: check: answered 502\\n!'
  ])
})

t.test('a large wave shows only its numbers, and a few of its errors', async t => {
  const nodes = Array.from({ length: 60 }, (_, at) =>
    rolloutNode(`web-${at + 1}`, { phase: 'failed', error: 'No space' })
  )
  const lines = rolloutLines(rolloutDetail(nodes), { paint, nowMs: nowMsOfWaveView })
  t.equal(lines[3], 'wave 1/1  web-1…60  60 failed')
  t.equal(lines.at(-1), 'and 50 more')
  t.equal(lines.filter(line => line.startsWith('✗')).length, 10)
})

t.test('the state says what the rollout does, or waits for', async t => {
  const cases: Array<[Partial<ListedRollout>, string]> = [
    [{ state: 'preparing' }, 'preparing'],
    [{ state: 'swapping', wave: 2, waves: 4 }, 'in progress, wave 2 of 4'],
    [{ state: 'approval', wave: 1, waves: 3 }, 'waits for an approval, wave 1 of 3 is done'],
    [
      { state: 'pausing', wave: 1, waves: 3, pausedUntil: '2030-01-01T00:01:30Z' },
      'wave 1 of 3 is done, the next one begins in 1m 30s'
    ],
    [{ state: 'halted', haltedReason: 'by ana' }, 'halted: by ana'],
    [{ state: 'reverting', haltedReason: null }, 'reverting'],
    [{ state: 'done' }, 'done']
  ]
  for (const [given, expected] of cases) t.equal(stateWords(rolloutDetail([], given), nowMsOfWaveView), expected)
})

t.test('waves are sorted by number, and phases by importance', async t => {
  const nodes = [rolloutNode('b', { wave: 10 }), rolloutNode('a', { wave: 2 }), rolloutNode('c', { wave: 10 })]
  t.strictSame(
    wavesOf({ nodes }).map(({ wave, nodes }) => [wave, nodes.length]),
    [
      [2, 1],
      [10, 2]
    ]
  )
  t.equal(countWords({ good: 3, stuck: 1, prepared: 2 }), '1 stuck, 3 good, 2 prepared')
  t.equal(countWords({}), 'no nodes')
  t.equal(errorLine(rolloutNode('a', { phase: 'stuck' }), paint), '! a: no reason was given')
})

t.test('names that count up are joined, and a long list is cut', async t => {
  const many = Array.from({ length: 20 }, (_, at) => `web-${at + 1}`)
  const cases: Array<[string[], string]> = [
    [[], ''],
    [['a1'], 'a1'],
    [['plant-a3', 'plant-a2', 'plant-a4'], 'plant-a2…4'],
    [['web-1', 'web-2'], 'web-1, web-2'],
    [many, 'web-1…20'],
    [['web-1', 'web-3'], 'web-1, web-3'],
    [['web', 'db'], 'db, web'],
    [['a01', 'a02', 'a03'], 'a01…03'],
    [['a09', 'a10', 'a11'], 'a09…11'],
    [['a9', 'a10', 'a11'], 'a9…11'],
    [['x1.eu', 'x2.eu'], 'x1.eu, x2.eu'],
    [['a', 'c', 'e', 'g', 'i', 'k', 'm', 'o'], 'a, c, e, g, i, k, 2 more'],
    [['a1', 'b1', 'a2', 'b2', 'b3', 'a3'], 'a1…3, b1…3']
  ]
  for (const [names, expected] of cases) t.equal(nameRanges(names), expected, names.join())
})
