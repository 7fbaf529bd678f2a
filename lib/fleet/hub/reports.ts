/* Takes what nodes report. A report is one transaction, and none if it says nothing new. */
import { instantOf, type Clock } from '../../base/clock.js'
import { withoutCommand } from '../../model/deployment.js'
import type { AgentReport } from '../../model/fleet-wire.js'
import type { FleetNode, Placement } from '../../model/node.js'
import type { Store } from '../../store/database.js'
import { findNode, listPlacements, noteLive, updateNode } from '../../store/tables/fleet.js'
import { noteReport } from '../../store/tables/rollouts.js'
import type { History } from './history.js'
import type { Rollings, Turn } from './rolling.js'

/** Dependencies of the reports. */
export interface ReportsNeeds {
  store: Store
  clock: Clock
  rollings: Rollings
  history: Pick<History, 'beginFor'>
  /** Called when another history has begun: the nodes need their orders again. */
  begun(): void
  /** Tells a node that projects are not placed on it. */
  unplaced(projectIds: readonly string[], nodeId: string): void
}

type Answer = AgentReport['answers'][number]
type Live = AgentReport['placements'][number]

/** Free space is written if it has changed by more than this share. */
const notableShare = 0.05

/** Creates the function that takes reports. Resolves when what the report says is on the disk. */
export function createReports({ store, clock, rollings, history, begun, unplaced }: ReportsNeeds) {
  function nodePatch(node: FleetNode, { version, freeBytes }: AgentReport): Partial<FleetNode> | null {
    const before = node.freeBytes ?? 0
    const isNotable = freeBytes !== null && Math.abs(freeBytes - before) > before * notableShare
    if (version === node.version && !isNotable) return null
    return { version, ...(freeBytes !== null && { freeBytes }) }
  }

  /** Takes an answer. Returns whether another history has begun because of it. */
  function answer(turn: Turn, nodeId: string, given: Answer): boolean {
    const rolling = turn.of(given.projectId)
    if (rolling === null || rolling.stored.id !== given.rolloutId) return false
    const { attempt, answer, error } = given
    const order = rolling.machine.orderOf(nodeId)
    const isIgnored = answer === 'ignored' && order.attempt === attempt && order.action !== 'none'
    if (isIgnored && history.beginFor(turn.tx, nodeId, `node ${nodeId}: ${error}`)) return true
    const isNews = rolling.machine.answer({ nodeId, attempt, answer, error })
    if (isNews && answer !== 'begun' && answer !== 'held')
      noteReport(turn.tx, { rolloutId: given.rolloutId, nodeId }, given)
    return false
  }

  return async (nodeId: string, report: AgentReport): Promise<void> => {
    const node = findNode(store, nodeId)
    if (node === undefined) return
    const placed = new Map(listPlacements(store, { nodeId }).map(each => [each.projectId, each]))
    const lives = report.placements.filter(live => isNewsOf(placed.get(live.projectId), live))
    const patch = nodePatch(node, report)
    if (report.answers.length > 0 || lives.length > 0 || patch !== null) {
      const answers = report.answers.filter(({ projectId }) => placed.has(projectId)).map(withoutCommands)
      const hasBegun = await rollings.write(turn => {
        if (patch !== null) updateNode(turn.tx, nodeId, patch)
        for (const live of lives) noteLive(turn.tx, { ...live, nodeId, seenAt: instantOf(clock) })
        return answers.map(each => answer(turn, nodeId, each)).includes(true)
      })
      if (hasBegun) begun()
    }
    unplaced(
      report.placements.map(({ projectId }) => projectId).filter(id => !placed.has(id)),
      nodeId
    )
  }
}

/** Agents of earlier versions name the command of a check. The log of the deployment would show it to everybody. */
function withoutCommands(answer: Answer): Answer {
  return answer.error === null ? answer : { ...answer, error: withoutCommand.without(answer.error) }
}

function isNewsOf(placed: Placement | undefined, live: Live): boolean {
  if (placed === undefined) return false
  const { liveDeployId, liveTree, isDrifted, seenAt } = placed
  const isSame = liveDeployId === live.liveDeployId && liveTree === live.liveTree && isDrifted === live.isDrifted
  return seenAt === null || !isSame
}
