import t from 'tap'
import {
  countWords,
  errorLine,
  nameRanges,
  rolloutLines,
  stateWords,
  wavesOf
} from '../../../lib/cli/fleet/wave-view.js'
import { createPaint } from '../../../lib/cli/terminal/output.js'
import type { ListedRollout } from '../../../lib/model/rollout.js'
import { rolloutDetail, rolloutNode } from '../../support/a-rollout.js'

const paint = createPaint({}, {})
const nowMs = Date.parse('2030-01-01T00:00:00Z')

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
  t.strictSame(rolloutLines(rollout, { paint, nowMs }), [
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
  const lines = rolloutLines(rolloutDetail(nodes), { paint, nowMs })
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
  for (const [given, expected] of cases) t.equal(stateWords(rolloutDetail([], given), nowMs), expected)
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
