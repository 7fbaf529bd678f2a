import type { Enrollment, ListedNode, ListedPlacement } from '../../lib/model/node.js'
import type { Client } from './client.js'

/** What is decided about a machine before it becomes a node. */
export interface NewEnrollment {
  /** Null: the machine proposes one. */
  name: string | null
  labels: Record<string, string>
  /** How long the token is valid. */
  seconds: number
}

/** An enrollment with its token, which is shown once. */
export interface IssuedToken {
  enrollment: Enrollment
  token: string
  /** What to run on the machine. It contains the token. */
  command: string
}

/** Where a project is placed from now on. A node is named by its id or its name. */
export interface PlacementChange {
  add: Array<{ node: string; deployPath?: string }>
  remove: string[]
}

/** The API of nodes, enrollments and placements. Each function rejects as `Client.ask` does. */
export interface FleetCalls {
  nodes(signal?: AbortSignal): Promise<ListedNode[]>
  /** Finds a node by its id or its name. */
  node(node: string, signal?: AbortSignal): Promise<ListedNode>
  updateNode(id: string, change: { name?: string; labels?: Record<string, string> }): Promise<ListedNode>
  drain(id: string, isDrained: boolean): Promise<ListedNode>
  /** Removes a node. Its files stay. */
  forget(id: string): Promise<void>
  enrollments(signal?: AbortSignal): Promise<Enrollment[]>
  enroll(fields: NewEnrollment): Promise<IssuedToken>
  revokeEnrollment(id: string): Promise<void>
  placements(projectId: string, signal?: AbortSignal): Promise<ListedPlacement[]>
  place(projectId: string, change: PlacementChange): Promise<ListedPlacement[]>
}

/** Creates the calls. */
export function createFleetCalls({ ask }: Pick<Client, 'ask'>): FleetCalls {
  const node = (id: string): string => `api/nodes/${encodeURIComponent(id)}`
  const enrollment = (id: string): string => `api/enrollments/${encodeURIComponent(id)}`
  const placements = (id: string): string => `api/projects/${encodeURIComponent(id)}/placements`
  return {
    async nodes(signal) {
      return (await ask<{ nodes: ListedNode[] }>('GET', 'api/nodes', { signal })).nodes
    },
    async node(id, signal) {
      return (await ask<{ node: ListedNode }>('GET', node(id), { signal })).node
    },
    async updateNode(id, body) {
      return (await ask<{ node: ListedNode }>('PATCH', node(id), { body })).node
    },
    async drain(id, isDrained) {
      return (await ask<{ node: ListedNode }>('PUT', `${node(id)}/drain`, { body: { drained: isDrained } })).node
    },
    async forget(id) {
      await ask('DELETE', node(id))
    },
    async enrollments(signal) {
      return (await ask<{ enrollments: Enrollment[] }>('GET', 'api/enrollments', { signal })).enrollments
    },
    enroll: body => ask('POST', 'api/enrollments', { body }),
    async revokeEnrollment(id) {
      await ask('DELETE', enrollment(id))
    },
    async placements(projectId, signal) {
      return (await ask<{ placements: ListedPlacement[] }>('GET', placements(projectId), { signal })).placements
    },
    async place(projectId, body) {
      return (await ask<{ placements: ListedPlacement[] }>('PATCH', placements(projectId), { body })).placements
    }
  }
}
