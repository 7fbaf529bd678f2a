/* Begins rollouts. */
import { instantOf, type Clock } from '../../base/clock.js'
import type { Ids } from '../../base/digests.js'
import { notFound, Refusal } from '../../base/errors.js'
import { systemActor, type Actor, type AuditEvent } from '../../model/audit.js'
import { isGoing, type RolloutPolicy } from '../../model/rollout.js'
import type { Transaction } from '../../store/database.js'
import { nodesOfProject } from '../../store/tables/fleet.js'
import { findProject } from '../../store/tables/projects.js'
import {
  nextRolloutNumber,
  removeOldOutputs,
  removeOldRollouts,
  type StoredRollout
} from '../../store/tables/rollouts.js'
import { planWaves } from '../waves.js'
import { fleetLimits, type FleetNode } from '../../model/node.js'
import type { Presence } from './presence.js'
import type { Rolling, Turn } from './rolling.js'
import { sharedError, type Twins } from './twins.js'

/** A release that is to be rolled out. */
export interface Release
  extends Pick<
    StoredRollout,
    'projectId' | 'deployId' | 'treeSha256' | 'archiveSha256' | 'archiveBytes' | 'policy' | 'sealed'
  > {
  policy: RolloutPolicy
  actor?: Actor
}

/** Dependencies of `createBeginIn`. */
export interface BeginNeeds {
  clock: Clock
  ids: Pick<Ids, 'id'>
  audit: { within(tx: Transaction, event: AuditEvent): void }
  presence: Pick<Presence, 'isLost'>
  twins: Pick<Twins, 'isShared'>
}

/** Number of rollouts of a project that are kept. */
const keptRollouts = 50

/** Begins a rollout in a transaction, on all nodes of its project or on some. Refuses `not_found`, `too_many_waves`. */
export type BeginIn = (turn: Turn, release: Release & { nodes?: readonly FleetNode[] }) => Rolling

/** Creates the function that begins a rollout. An earlier rollout of the project that is still going on is halted. */
export function createBeginIn({ clock, ids, audit, presence, twins }: BeginNeeds): BeginIn {
  return (turn, { actor = systemActor, nodes: given, ...release }) => {
    const { tx } = turn
    const { projectId, policy, deployId } = release
    if (findProject(tx, projectId) === undefined) throw notFound('Project', projectId)
    const { waves, nodes } = planWaves(given ?? nodesOfProject(tx, projectId), policy)
    if (waves > fleetLimits.waves) throw tooManyWaves(waves)
    const id = ids.id('ro_')
    const earlier = turn.of(projectId)
    if (earlier !== null && isGoing(earlier.stored.state)) earlier.machine.halt(`Rollout ${id} replaces it`)
    if (earlier !== null) turn.leave(projectId)
    const number = nextRolloutNumber(tx, projectId)
    const at = instantOf(clock)
    const begun = {
      wave: 0,
      waves,
      lastAttempt: 0,
      pausedUntil: null,
      revertFrom: null,
      haltedReason: null,
      endedAt: null
    }
    const stored: StoredRollout = { id, number, state: 'preparing', ...release, ...begun, createdAt: at }
    const placed = nodes.map(node => ({ ...node, updatedAt: at }))
    const added = turn.added(stored, placed)
    const { machine } = added
    machine.start()
    for (const { nodeId } of placed) {
      if (twins.isShared(nodeId)) machine.lost(nodeId, sharedError)
      else if (presence.isLost(nodeId)) machine.lost(nodeId)
    }
    removeOldOutputs(tx, projectId, number)
    removeOldRollouts(tx, projectId, keptRollouts)
    audit.within(tx, { action: 'rollout.start', actor, projectId, target: id, detail: `deployment ${deployId}` })
    return added
  }
}

function tooManyWaves(waves: number): Refusal {
  const given = `The policy "rollout" makes ${waves} waves of these nodes`
  const sentence = `${given}, at most ${fleetLimits.waves} are allowed. Set a larger "then"`
  return new Refusal('conflict', 'too_many_waves', sentence)
}
