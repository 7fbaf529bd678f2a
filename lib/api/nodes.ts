import { flag, optional, readFields } from '../base/fields.js'
import { invalid, notFound } from '../base/errors.js'
import type { Fleet } from '../fleet/hub/fleet.js'
import { json } from '../http/core/route.js'
import { nodeLabels, parseLabel } from '../model/node-labels.js'
import { nodeName } from '../model/node-name.js'
import { queryText } from './query.js'
import { type ApiRequest, type Handler, param } from './route.js'
import { checkProject } from './scope.js'

/** Fields of `PATCH /api/nodes/:node`. */
export const nodeFields = {
  /** The new name, unique in the fleet. */
  name: optional(nodeName),
  /** All labels of the node after the change. */
  labels: optional(nodeLabels)
}
/** Fields of `PUT /api/nodes/:node/drain`. */
export const drainFields = {
  /** Whether rollouts leave the node out. */
  drained: flag
}

/** Dependencies of the handlers of nodes. */
export interface NodesNeeds {
  fleet(): Promise<Fleet>
}

/** Handlers of nodes. A path names a node by its id or its name. */
export function nodeHandlers({ fleet }: NodesNeeds) {
  /** Returns the nodes, and the one that the path names. */
  async function place(request: ApiRequest) {
    const { nodes } = await fleet()
    return { nodes, node: nodes.get(param(request, 'node'), request.actor.projects) }
  }

  return {
    /** `GET /api/nodes`: the nodes by name. A caller that is limited to projects sees only their nodes. */
    list: async ({ actor, query }) => {
      const { nodes } = await fleet()
      const projectId = queryText(query, 'projectId')
      if (projectId !== undefined) checkProject(actor, projectId, () => notFound('Project', projectId))
      const label = queryLabel(query)
      const filter = { ...(projectId !== undefined && { projectId }), ...(label !== undefined && { label }) }
      return json({ success: true, nodes: nodes.list({ ...filter, scope: actor.projects }) })
    },

    /** `GET /api/nodes/:node`. */
    get: async request => json({ success: true, node: (await place(request)).node }),

    /** `PATCH /api/nodes/:node {name?, labels?}`: fields that are absent keep their values. */
    update: async request => {
      const { nodes, node } = await place(request)
      const { name, labels } = readFields(await request.json(), nodeFields)
      const change = { ...(name !== undefined && { name }), ...(labels !== undefined && { labels }) }
      return json({ success: true, node: await nodes.update(node.id, change, request.actor) })
    },

    /** `PUT /api/nodes/:node/drain {drained}`: leaves the node out of rollouts, or lets it take part again. */
    drain: async request => {
      const { nodes, node } = await place(request)
      const { drained } = readFields(await request.json(), drainFields)
      return json({ success: true, node: await nodes.drain(node.id, drained, request.actor) })
    },

    /** `DELETE /api/nodes/:node`: its key is no longer accepted. Its files stay. */
    forget: async request => {
      const { nodes, node } = await place(request)
      await nodes.forget(node.id, request.actor)
      return json({ success: true, message: `The node "${node.name}" was removed` })
    }
  } satisfies Record<string, Handler>
}

/** Reads `label=key=value` in the query. */
function queryLabel(query: URLSearchParams): { key: string; value: string } | undefined {
  const given = queryText(query, 'label')
  if (given === undefined) return undefined
  const label = parseLabel(given)
  if (label === null) throw invalid('label', `"label" is "${given}": expected <name>=<value>, for example zone=eu`)
  return label
}
