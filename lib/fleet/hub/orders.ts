/* Sends orders to the nodes, one after the other, so that no older one follows a newer one. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { DesiredLine, OrderLine } from '../../model/fleet-wire.js'
import { orderText } from '../../model/fleet-wire.js'
import type { Reader } from '../../store/database.js'
import { lastRollout } from '../../store/tables/rollouts.js'
import { storedRolloutNode } from '../../store/tables/rollout-nodes.js'
import { listPlacements } from '../../store/tables/placements.js'
import { orderIn } from '../machine.js'
import type { HubKey } from './hub-key.js'
import type { Links } from './links.js'
import type { NewOrder } from './rolling.js'

/** Sends orders. */
export interface Orders {
  /** Sends orders to the nodes that are connected. The others get them when they connect. */
  send(orders: readonly NewOrder[]): void
  /** Resolves when everything that was given before has been sent. */
  sent(): Promise<void>
}

/** A signature takes about 50 µs: other requests get their turn in between. */
const signedTogether = 50

/** Creates the sender of orders. */
export function createOrders({
  key,
  links,
  log
}: {
  key: HubKey
  links: Links
  log(message: string, error?: unknown): void
}): Orders {
  let sending: Promise<void> = Promise.resolve()
  let knownKey: string | null = null

  /** Tells the nodes a new key before anything is signed with it. */
  function announce(publicKey: string): void {
    if (knownKey !== null && knownKey !== publicKey)
      for (const nodeId of links.connected()) for (const line of key.lines()) links.find(nodeId)?.send(line)
    knownKey = publicKey
  }

  async function sendAll(orders: readonly NewOrder[]): Promise<void> {
    const { publicKey, sign } = await key.current()
    announce(publicKey)
    let count = 0
    for (const order of orders) {
      const link = links.find(order.nodeId)
      if (link === null) continue
      link.send(signed(order, sign))
      if (++count % signedTogether === 0) await nextTurn()
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

function signed({ nodeId, rollout, order }: NewOrder, sign: (text: string) => string): DesiredLine {
  const { projectId, id: rolloutId, number, deployId, treeSha256, archiveSha256, archiveBytes } = rollout
  const release = { deployId, treeSha256, archiveSha256, archiveBytes }
  const line: Omit<OrderLine, 'signature' | 'type'> = { projectId, rolloutId, number, ...order, ...release }
  return { type: 'order', ...line, signature: sign(orderText(nodeId, line)) }
}
