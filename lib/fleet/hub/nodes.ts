import { notFound, Refusal } from '../../base/errors.js'
import { isInScope, type ProjectScope } from '../../model/access.js'
import type { AuditEvent } from '../../model/audit.js'
import type { FleetNode, ListedNode, ListedPlacement } from '../../model/node.js'
import type { Reader, Store, Transaction } from '../../store/database.js'
import {
  deleteNode,
  findNode,
  findNodeByName,
  listNodes,
  listPlacements,
  updateNode
} from '../../store/tables/fleet.js'
import type { Nodes } from './fleet.js'
import type { NodeLinks } from './links.js'
import type { Rollings } from './rolling.js'

/** Dependencies of the nodes. */
export interface NodesNeeds {
  store: Store
  audit: { within(tx: Transaction, event: AuditEvent): void }
  links: NodeLinks
  rollings: Rollings
  /** Returns when a node was heard of last; null: not since it was enrolled. */
  lastSeenOf(node: FleetNode): string | null
  /** Ends the sessions and the stream of a node that was removed. */
  forgotten(nodeId: string): void
}

/** Creates the nodes of a fleet. */
export function createNodes({ store, audit, links, rollings, lastSeenOf, forgotten }: NodesNeeds): Nodes {
  function listed(node: FleetNode, placements: ListedPlacement[]): ListedNode {
    const link = links.find(node.id)
    const lastSeenAt = lastSeenOf(node)
    return {
      ...node,
      lastSeenAt,
      isConnected: link !== null,
      ...(link?.isOutdated && { isOutdated: true }),
      placements
    }
  }

  function get(idOrName: string, scope?: ProjectScope): ListedNode {
    const node = requireNode(store, idOrName)
    const placements = listPlacements(store, { nodeId: node.id, scope })
    if (scope != null && placements.length === 0) throw notFound('Node', idOrName)
    return listed(node, placements)
  }

  return {
    list({ projectId, label, scope } = {}) {
      const byNode = new Map<string, ListedPlacement[]>()
      for (const placement of listPlacements(store, { scope })) {
        const others = byNode.get(placement.nodeId)
        if (others === undefined) byNode.set(placement.nodeId, [placement])
        else others.push(placement)
      }
      return listNodes(store)
        .map(node => listed(node, byNode.get(node.id) ?? []))
        .filter(({ labels, placements }) => {
          const hasLabel = label === undefined || labels[label.key] === label.value
          const isSeen = scope == null || placements.length > 0
          const isOfProject = projectId === undefined || placements.some(each => each.projectId === projectId)
          return hasLabel && isSeen && isOfProject && (projectId === undefined || isInScope(scope, projectId))
        })
    },

    get,

    async update(id, { name, labels }, actor) {
      const { id: nodeId } = requireNode(store, id)
      await store.write(tx => {
        if (name !== undefined) refuseTaken(tx, name, nodeId)
        if (!updateNode(tx, nodeId, { ...(name && { name }), ...(labels && { labels }) })) throw notFound('Node', id)
        audit.within(tx, { action: 'node.update', actor, target: nodeId, detail: nameOf(tx, nodeId) })
      })
      return get(nodeId)
    },

    async drain(id, isDrained, actor) {
      const { id: nodeId } = requireNode(store, id)
      await rollings.write(turn => {
        const node = requireNode(turn.tx, nodeId)
        if (node.isDrained === isDrained) return
        updateNode(turn.tx, nodeId, { isDrained })
        const action = isDrained ? 'node.drain' : 'node.undrain'
        audit.within(turn.tx, { action, actor, target: nodeId, detail: node.name })
        for (const { projectId } of listPlacements(turn.tx, { nodeId })) {
          const machine = turn.of(projectId)?.machine
          if (isDrained) machine?.drain(nodeId)
          else machine?.wake(nodeId)
        }
      })
      return get(nodeId)
    },

    async forget(id, actor) {
      const { id: nodeId } = requireNode(store, id)
      await rollings.write(turn => {
        const node = requireNode(turn.tx, nodeId)
        for (const { projectId } of listPlacements(turn.tx, { nodeId })) turn.of(projectId)?.machine.remove(nodeId)
        deleteNode(turn.tx, nodeId)
        audit.within(turn.tx, { action: 'node.forget', actor, target: nodeId, detail: node.name })
      })
      forgotten(nodeId)
    }
  }
}

/** Returns a node by its id or name. Refuses `not_found`. */
export function requireNode(db: Reader, idOrName: string): FleetNode {
  const node = findNode(db, idOrName) ?? findNodeByName(db, idOrName)
  if (node === undefined) throw notFound('Node', idOrName)
  return node
}

/** Refuses (409 `name_taken`) the name of another node. */
export function refuseTaken(db: Reader, name: string, ownId?: string): void {
  const other = findNodeByName(db, name)
  if (other === undefined || other.id === ownId) return
  const sentence = `The name "${name}" is already used: names must be unique, ignoring case`
  throw new Refusal('conflict', 'name_taken', sentence, {
    field: 'name',
    other: { kind: 'node', id: other.id, name: other.name }
  })
}

function nameOf(db: Reader, nodeId: string): string {
  return requireNode(db, nodeId).name
}
