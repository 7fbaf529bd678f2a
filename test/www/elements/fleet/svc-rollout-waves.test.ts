import '../../../support/without-dom.js'
import t from 'tap'
import type { NodePhase } from '../../../../lib/model/rollout.js'
import { isOpenAtFirst, waveRows } from '../../../../www/elements/fleet/svc-rollout-waves.js'
import { createLiveRollout } from '../../../../www/state/rollout-live.js'
import { rolloutOf } from '../../../support/fleet-stand-in.js'

const wavesOf = (phases: NodePhase[][]) => {
  const live = createLiveRollout()
  live.take({ type: 'rollout', rollout: rolloutOf({ id: 'proj_a', name: 'a' }, phases) })
  return live.waves()
}
const many = (phase: NodePhase): NodePhase[] => Array.from({ length: 30 }, () => phase)

t.test('all waves of a few nodes are open', async t => {
  const rows = waveRows(wavesOf([['good'], ['prepared', 'prepared']]), { current: 1, decided: new Map() })
  t.same(
    rows.map(({ key }) => key),
    ['wave 1', 'node_1', 'wave 2', 'node_2', 'node_3']
  )
})

t.test('of many nodes, the current wave is open, and those with trouble', async t => {
  const waves = wavesOf([many('good'), many('swapping'), many('prepared'), [...many('prepared'), 'unreachable']])
  t.same(
    waves.map(wave => isOpenAtFirst(wave, 2, 121)),
    [false, true, false, true]
  )
  const decided = new Map([
    [1, true],
    [4, false]
  ])
  t.equal(waveRows(waves, { current: 2, decided }).length, 4 + 30 + 30, 'unless the reader decides otherwise')
})
