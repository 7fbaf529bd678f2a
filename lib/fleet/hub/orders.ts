/* Sends orders to the nodes, one after the other, so that no older one follows a newer one. */

import { setImmediate as nextTurn } from 'node:timers/promises'
import type { AgentReport, OrderLine } from '../../model/fleet-wire.js'
import type { Reader, Store, Transaction } from '../../core/store/database.js'
import {
  beginEpoch,
  currentEpoch,
  findNode,
  listPlacements,
  noteLive,
  updateNode
} from '../../core/store/tables/fleet.js'
import { lastRollout, noteReport, storedRolloutNode } from '../../core/store/tables/rollouts.js'
import { orderIn } from '../machine.js'
import { type Clock, elapsedOf, instantOf } from '../../base/clock.js'
import { withoutCommand } from '../../model/deployment.js'
import type { FleetNode, Placement } from '../../model/node.js'
import type { Ids } from '../../base/digests.js'
import { type AuditEvent, systemActor } from '../../model/audit.js'
import type { Links } from './links.js'
import type { NewOrder, Rollings, Turn } from './rolling.js'

/** A signature of a stream takes about 50 µs: other requests get their turn in between. */
const sentTogether = 50

/** Creates the sender of orders. */
export function createOrders({
  store,
  links,
  isHeld,
  log
}: {
  store: Reader
  links: Pick<Links, 'find'>
  /** Whether a node gets no orders now. They are sent later. */
  isHeld(nodeId: string): boolean
  log(message: string, error?: unknown): void
}) {
  let sending: Promise<void> = Promise.resolve()

  async function sendAll(orders: readonly NewOrder[]): Promise<void> {
    let count = 0
    for (const order of orders) {
      const link = links.find(order.nodeId)
      if (link === null || isHeld(order.nodeId)) continue
      link.send(lineOf(order, currentEpoch(store)))
      if (++count % sentTogether === 0) await nextTurn()
    }
  }

  return {
    /** Sends orders to the nodes that are connected. The others get them when they connect. */
    send(orders: readonly NewOrder[]): void {
      if (orders.length === 0) return
      sending = sending.then(() => sendAll(orders)).catch(error => log('Cannot send orders to the nodes', error))
    },

    /** Resolves when everything that was given before has been sent. */
    sent: (): Promise<void> => sending
  }
}

/** Returns the orders of a node: those of the last rollouts of the projects that are placed on it. */
export function ordersOf(db: Reader, nodeId: string): NewOrder[] {
  return listPlacements(db, { nodeId }).flatMap(({ projectId }) => {
    const rollout = lastRollout(db, projectId)
    const node = rollout === undefined ? undefined : storedRolloutNode(db, rollout.id, nodeId)
    return rollout === undefined || node === undefined ? [] : [{ nodeId, rollout, order: orderIn(node) }]
  })
}

function lineOf({ rollout, order }: NewOrder, epoch: string): OrderLine {
  const { projectId, id: rolloutId, number, deployId, treeSha256, archiveSha256, archiveBytes } = rollout
  const release = { deployId, treeSha256, archiveSha256, archiveBytes }
  return { type: 'order', epoch, projectId, rolloutId, number, ...order, ...release }
}

/* Takes what nodes report. A report is one transaction, and none if it says nothing new. */

export interface ReportsNeeds {
  store: Store
  clock: Clock
  rollings: Rollings
  history: Pick<History, 'beginFor'>
  /** Called when another history has begun: the nodes need their orders again. */
  begun(): void
  /** Tells a node that projects are not placed on it. */
  unplaced(projectIds: readonly string[], nodeId: string): void
  /** Called when a node says whether files of a project were edited there. */
  drifted(projectId: string, isDrifted: boolean, node: FleetNode): void
}

type Answer = AgentReport['answers'][number]
type Live = AgentReport['placements'][number]

/** Free space is written if it has changed by more than this share. */
const notableShare = 0.05

/** Creates the function that takes reports. Resolves when what the report says is on the disk. */
export function createReports({ store, clock, rollings, history, begun, unplaced, drifted }: ReportsNeeds) {
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
    for (const { projectId, isDrifted } of lives) drifted(projectId, isDrifted, node)
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

/*
 * The history of the hub's database, which orders name. A restored database does not know what happened after its backup, so
 * another history begins with it, and nodes obey its orders, whatever numbers they remember. It begins also if a node knows a
 * later rollout than this database: then the database was set back in another way, such as by a snapshot of the machine.
 */

/** The history of the hub's database. */
export type History = ReturnType<typeof createHistory>

/** A node that was taken over could let histories begin without end. */
const onceInMs = 24 * 60 * 60_000

export function createHistory({
  clock,
  ids,
  audit
}: {
  clock: Clock
  ids: Pick<Ids, 'token'>
  audit: { within(tx: Transaction, event: AuditEvent): void }
}) {
  /** When nodes let a history begin. */
  const asked = new Map<string, number>()

  function begin(tx: Transaction, why: string): void {
    beginEpoch(tx, ids.token())
    audit.within(tx, { action: 'fleet.history', actor: systemActor, target: null, detail: why })
  }

  return {
    begin,
    /** Lets the first history begin. */
    ensure(tx: Transaction): void {
      if (currentEpoch(tx) === '') beginEpoch(tx, ids.token())
    },
    /** Begins another history because of a node, at most once a day for each. Returns whether it did. */
    beginFor(tx: Transaction, nodeId: string, why: string): boolean {
      const nowMs = elapsedOf(clock)
      const last = asked.get(nodeId)
      if (last !== undefined && nowMs - last < onceInMs) return false
      asked.set(nodeId, nowMs)
      begin(tx, why)
      return true
    }
  }
}
