import type { ListedRolloutNode } from '../../../lib/model/rollout.js'
import type { Wave } from '../../state/rollout-live.js'
import { troubled } from './rollout-words.js'

/* The rows of a list of waves with their nodes. Pure. */

/** A row: a wave, or a node of the wave above it. */
export type WaveRow =
  | { kind: 'wave'; key: string; wave: Wave; isOpen: boolean }
  | { kind: 'node'; key: string; node: ListedRolloutNode }

/** Up to this number of nodes, all waves are open. */
const fewNodes = 40

/** Returns which waves are open unless the reader decides otherwise: the current one, and those with trouble. */
export function isOpenAtFirst({ number, nodes, counts }: Wave, current: number, all: number): boolean {
  if (nodes.length === 0) return false
  if (all <= fewNodes) return true
  return number === current || [...troubled].some(phase => (counts[phase] ?? 0) > 0)
}

/** Returns the rows. `decided`: waves that the reader opened or closed. */
export function waveRows(
  waves: readonly Wave[],
  { current, decided }: { current: number; decided: ReadonlyMap<number, boolean> }
): WaveRow[] {
  const all = waves.reduce((sum, { nodes }) => sum + nodes.length, 0)
  return waves.flatMap((wave): WaveRow[] => {
    const isOpen = decided.get(wave.number) ?? isOpenAtFirst(wave, current, all)
    const nodes = isOpen ? wave.nodes : []
    return [
      { kind: 'wave', key: `wave ${wave.number}`, wave, isOpen },
      ...nodes.map((node): WaveRow => ({ kind: 'node', key: node.nodeId, node }))
    ]
  })
}
