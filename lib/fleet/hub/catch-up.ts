/*
 * After the last rollout of a project was reverted, its nodes serve the release of before. A node that has nothing, such as one
 * that is placed then, gets that release by a rollout of its own: the others have it, and do nothing.
 */
import type { Actor } from '../../model/audit.js'
import { fleetLimits } from '../../model/node.js'
import type { NodePhase } from '../../model/rollout.js'
import { listPlacements, nodesOfProject } from '../../store/tables/fleet.js'
import { doneBefore } from '../../store/tables/rollouts.js'
import { planWaves } from '../waves.js'
import type { BeginIn } from './begin.js'
import type { Turn } from './rolling.js'

/**
 * Lets nodes that have no release get that of the others, if the last rollout of the project was reverted. `placed` are the nodes
 * that were placed in this turn: they have not said yet what they have.
 */
export type CatchUp = (turn: Turn, projectId: string, given?: { placed: ReadonlySet<string>; actor: Actor }) => void

/** Phases in which a node certainly has what it had before the rollout. */
const wentBack: ReadonlySet<NodePhase> = new Set(['reverted', 'failed', 'pending'])

/** Creates the function that lets nodes catch up. A queued or running deployment reaches nodes that are placed meanwhile. */
export function createCatchUp(needs: { beginIn: BeginIn; hasRunning(projectId: string): boolean }): CatchUp {
  return (turn, projectId, given) => {
    const { tx } = turn
    const last = turn.of(projectId)
    if (last?.stored.state !== 'reverted' || (given !== undefined && needs.hasRunning(projectId))) return
    const earlier = doneBefore(tx, projectId, last.stored.number)
    if (earlier === undefined) return
    // What a user took from nodes with this release, they do not get by themselves.
    const isUndone = earlier.deployId === last.stored.deployId
    const empty = new Set(
      listPlacements(tx, { projectId })
        .filter(({ nodeId, liveDeployId, isDrifted, seenAt }) =>
          seenAt === null || isUndone ? given?.placed.has(nodeId) : liveDeployId === null && !isDrifted
        )
        .map(({ nodeId }) => nodeId)
    )
    const nodes = nodesOfProject(tx, projectId).filter(({ id }) => empty.has(id))
    if (nodes.every(({ isDrained }) => isDrained)) return
    const open = [...last.machine.nodes].filter(({ nodeId, phase }) => !empty.has(nodeId) && !wentBack.has(phase))
    const { deployId, treeSha256, archiveSha256, archiveBytes, sealed, policy } = earlier
    const release = { projectId, deployId, treeSha256, archiveSha256, archiveBytes, sealed }
    // Nobody chose the policy for this number of nodes, so it is widened, not refused.
    const then = planWaves(nodes, policy).waves > fleetLimits.waves ? '1%' : policy.then
    const { machine } = needs.beginIn(turn, {
      ...release,
      // One that is not connected gets it later: nobody waits for it.
      policy: { ...policy, then, pause: 0, maxUnreachable: '100%' },
      nodes,
      ...(given && { actor: given.actor })
    })
    // Nodes that may still have the reverted release are asked when they are back.
    for (const { nodeId } of open) machine.add(nodeId)
  }
}
