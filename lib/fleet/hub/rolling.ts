/*
 * The rollouts that give orders: the last one of each project. Their state is in the store. A change runs in the
 * transaction that acknowledges it, and its orders and news leave when it is on the disk. After a failure, the state is
 * read from the store again.
 */

import { type Clock, instantOf } from '../../base/clock.js'
import {
  isGoing,
  type NodePhase,
  type RolloutNode,
  type RolloutPolicy,
  type RolloutState
} from '../../model/rollout.js'
import type { Reader, Store, Transaction } from '../../core/store/database.js'
import { findNode, listPlacements, nodesOfProject } from '../../core/store/tables/fleet.js'
import {
  doneBefore,
  goingProjects,
  insertRollout,
  lastRollout,
  nextNodePosition,
  nextRolloutNumber,
  putRolloutNodes,
  removeOldOutputs,
  removeOldRollouts,
  rolloutNodes,
  type StoredRollout,
  updateRollout
} from '../../core/store/tables/rollouts.js'
import { beginsByOrder, Machine, type Order, orderIn } from '../machine.js'
import type { Ids } from '../../base/digests.js'
import { Refusal } from '../../base/errors.js'
import { type Actor, type AuditEvent, systemActor } from '../../model/audit.js'
import { requireProject } from '../../core/store/tables/projects.js'
import { planWaves } from '../waves.js'
import { fleetLimits, type FleetNode } from '../../model/node.js'
import { type Presence, sharedError, type Twins } from './links.js'

/** The last rollout of a project, with its rules. */
export interface Rolling {
  stored: StoredRollout
  machine: Machine
  /** The state of the rollout as it was written last. */
  written: string
  /** The position of a node that is added: after all others, as in the memory. */
  nextPosition: number
}

/** An order that a change has brought about. */
export interface NewOrder {
  nodeId: string
  rollout: StoredRollout
  order: Order
}

/** What a change of rollouts works with. */
export interface Turn {
  tx: Transaction
  /** Returns the last rollout of a project; null: there is none. */
  of(projectId: string): Rolling | null
  /** Adds a rollout. Its nodes are in the order of their waves. */
  added(stored: StoredRollout, nodes: RolloutNode[]): Rolling
  /** Writes the last rollout of a project, before another one is added. It gives no more orders. */
  leave(projectId: string): void
}

/** The rollouts of a hub. */
export type Rollings = ReturnType<typeof createRollings>

export interface RollingsNeeds {
  store: Store
  clock: Clock
  /** Sends orders. Called when they are durable. */
  send(orders: readonly NewOrder[]): void
  /** Tells followers what has changed. */
  changed(rollout: StoredRollout, nodeIds: readonly string[], from: RolloutState): void
}

/** Number of rollouts that have ended and are kept in memory. */
const keptEnded = 16

/** Creates the rollouts of a hub. */
export function createRollings({ store, clock, send, changed }: RollingsNeeds) {
  const known = new Map<string, Rolling>()

  function rolling(stored: StoredRollout, nodes: RolloutNode[], nextPosition: number): Rolling {
    const isDrained = (id: string): boolean => findNode(store, id)?.isDrained ?? true
    const machine = new Machine(stored, nodes, { now: clock.now, isDrained })
    const made = { stored, machine, written: JSON.stringify(stateOf(stored)), nextPosition }
    known.delete(stored.projectId)
    known.set(stored.projectId, made)
    trim()
    return made
  }

  function trim(): void {
    if (known.size <= keptEnded) return
    const ended = [...known].filter(([, { stored }]) => !isGoing(stored.state))
    for (const [projectId] of ended.slice(0, Math.max(0, ended.length - keptEnded))) known.delete(projectId)
  }

  function read(db: Reader, projectId: string): Rolling | null {
    const found = known.get(projectId)
    if (found !== undefined) return found
    const stored = lastRollout(db, projectId)
    return stored === undefined ? null : rolling(stored, rolloutNodes(db, stored.id), nextNodePosition(db, stored.id))
  }

  return {
    /** Runs a change in a transaction. Its orders and news leave when it is on the disk. */
    async write<T>(work: (turn: Turn) => T): Promise<T> {
      const touched = new Map<string, Rolling>()
      const left = new Map<string, Saved>()
      try {
        const { result, saved } = await store.write(tx => {
          const result = work({
            tx,
            of(projectId) {
              const found = touched.get(projectId) ?? read(tx, projectId)
              if (found !== null) touched.set(projectId, found)
              return found
            },
            added(stored, nodes) {
              insertRollout(tx, stored)
              putRolloutNodes(tx, stored.id, { nodes, position: 0 })
              const found = rolling(stored, nodes, nodes.length)
              touched.set(stored.projectId, found)
              return found
            },
            leave(projectId) {
              const found = read(tx, projectId)
              if (found !== null) left.set(projectId, { ...save(tx, found), orders: [] })
            }
          })
          return { result, saved: [...left.values(), ...[...touched.values()].map(each => save(tx, each))] }
        })
        for (const { orders } of saved) send(orders)
        for (const { rollout, nodeIds, isNews, from } of saved) if (isNews) changed(rollout, nodeIds, from)
        return result
      } catch (error) {
        // The memory is ahead of the store, whose transaction was undone.
        for (const projectId of [...touched.keys(), ...left.keys()]) known.delete(projectId)
        throw error
      }
    },

    /** The projects whose last rollout is going on, or waits. */
    going: (): string[] => goingProjects(store),
    /** Returns the last rollout of a project, to read it. */
    read: (projectId: string): Rolling | null => read(store, projectId),
    /** Forgets a project that was removed. */
    drop: (projectId: string): void => void known.delete(projectId)
  }
}

interface Saved {
  rollout: StoredRollout
  nodeIds: string[]
  orders: NewOrder[]
  isNews: boolean
  /** The state before the change. */
  from: RolloutState
}

/** Writes what has changed, and returns what follows from it. */
function save(tx: Transaction, rolling: Rolling): Saved {
  const { stored, machine } = rolling
  const nodes = machine.takeChanged()
  const state = stateOf(stored)
  const text = JSON.stringify(state)
  const isChanged = text !== rolling.written
  const from = (JSON.parse(rolling.written) as { state: RolloutState }).state
  if (isChanged) updateRollout(tx, stored.id, state)
  rolling.written = text
  putRolloutNodes(tx, stored.id, { nodes, position: rolling.nextPosition })
  rolling.nextPosition += nodes.length
  const ordered = nodes.filter(({ phase }) => beginsByOrder(phase))
  const orders = ordered.map(node => ({ nodeId: node.nodeId, rollout: stored, order: orderIn(node) }))
  const nodeIds = nodes.map(({ nodeId }) => nodeId)
  return { rollout: { ...stored }, nodeIds, orders, isNews: isChanged || nodes.length > 0, from }
}

function stateOf({ state, wave, waves, lastAttempt, pausedUntil, revertFrom, haltedReason, endedAt }: StoredRollout) {
  return { state, wave, waves, lastAttempt, pausedUntil, revertFrom, haltedReason, endedAt }
}

/* Begins rollouts. */

/** A release that is to be rolled out. */
export interface Release
  extends Pick<
    StoredRollout,
    'projectId' | 'deployId' | 'treeSha256' | 'archiveSha256' | 'archiveBytes' | 'policy' | 'sealed'
  > {
  policy: RolloutPolicy
  actor?: Actor
}

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
    requireProject(tx, projectId)
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

/*
 * After the last rollout of a project was reverted, its nodes serve the release of before. A node that has nothing, such as one
 * that is placed then, gets that release by a rollout of its own: the others have it, and do nothing.
 */

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
