/*
 * The rollouts that give orders: the last one of each project. Their state is in the store. A change runs in the
 * transaction that acknowledges it, and its orders and news leave when it is on the disk. After a failure, the state is
 * read from the store again.
 */
import type { Clock } from '../../base/clock.js'
import { isGoing, type RolloutNode, type RolloutState } from '../../model/rollout.js'
import type { Reader, Store, Transaction } from '../../store/database.js'
import { findNode } from '../../store/tables/fleet.js'
import {
  goingProjects,
  insertRollout,
  lastRollout,
  nextNodePosition,
  putRolloutNodes,
  rolloutNodes,
  type StoredRollout,
  updateRollout
} from '../../store/tables/rollouts.js'
import { beginsByOrder, Machine, orderIn, type Order } from '../machine.js'

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
export interface Rollings {
  /** Runs a change in a transaction. Its orders and news leave when it is on the disk. */
  write<T>(work: (turn: Turn) => T): Promise<T>
  /** The projects whose last rollout is going on, or waits. */
  going(): string[]
  /** Returns the last rollout of a project, to read it. */
  read(projectId: string): Rolling | null
  /** Forgets a project that was removed. */
  drop(projectId: string): void
}

/** Dependencies of the rollouts. */
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
export function createRollings({ store, clock, send, changed }: RollingsNeeds): Rollings {
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
    async write(work) {
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
    going: () => goingProjects(store),
    read: projectId => read(store, projectId),
    drop: projectId => void known.delete(projectId)
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
