/* Sends orders to the nodes, one after the other, so that no older one follows a newer one. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { OrderLine } from '../../model/fleet-wire.js'
import type { Reader } from '../../store/database.js'
import { currentEpoch } from '../../store/tables/cluster.js'
import { lastRollout, storedRolloutNode } from '../../store/tables/rollouts.js'
import { listPlacements } from '../../store/tables/fleet.js'
import { orderIn } from '../machine.js'
import type { Links } from './links.js'
import type { NewOrder } from './rolling.js'

/** Sends orders. */
export interface Orders {
  /** Sends orders to the nodes that are connected. The others get them when they connect. */
  send(orders: readonly NewOrder[]): void
  /** Resolves when everything that was given before has been sent. */
  sent(): Promise<void>
}

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
}): Orders {
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
    send(orders) {
      if (orders.length === 0) return
      sending = sending.then(() => sendAll(orders)).catch(error => log('Cannot send orders to the nodes', error))
    },
    sent: () => sending
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
