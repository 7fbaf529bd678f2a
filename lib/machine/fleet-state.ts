import type { FleetHealth } from '../model/health.js'
import { isGoing, rolloutStates } from '../model/rollout.js'
import type { Reader } from '../store/database.js'
import { countNodes, sharedNodes } from '../store/tables/fleet.js'
import { countRollouts } from '../store/tables/rollouts.js'

/** Returns the state of the fleet; null: there are no nodes. `links` are the counts of the connected agents. */
export function fleetState(db: Reader, links: Pick<FleetHealth, 'connected' | 'outdated'>): FleetHealth | null {
  const nodes = countNodes(db)
  if (nodes === 0) return null
  const states = countRollouts(db)
  const going = rolloutStates.filter(isGoing).reduce((sum, state) => sum + (states[state] ?? 0), 0)
  return { nodes, ...links, shared: sharedNodes(db).length, going, halted: states.halted ?? 0 }
}
