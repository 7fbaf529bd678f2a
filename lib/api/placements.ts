import { line, list, maxPathLength, object, optional, readFields, withDefault } from '../base/fields.js'
import { invalid, notFound } from '../base/errors.js'
import type { Fleet } from '../fleet/hub/fleet.js'
import { json } from '../http/core/route.js'
import { fleetLimits } from '../model/node.js'
import type { Project } from '../model/project.js'
import { type Handler, param } from './route.js'

/** The id or the name of a node. */
const nodeWord = line({ min: 1, max: fleetLimits.nameLength, trim: true })
const added = object({ node: nodeWord, deployPath: optional(line({ min: 1, max: maxPathLength, trim: true })) })

/** Fields of `PATCH /api/projects/:id/placements`. */
export const placementFields = {
  /** Nodes to add, each with its own directory if `deployPath` is given. */
  add: withDefault(list(added, { max: fleetLimits.nodes }), []),
  /** Nodes to remove. */
  remove: withDefault(list(nodeWord, { max: fleetLimits.nodes }), [])
}

/** Dependencies of the handlers of placements. */
export interface PlacementsNeeds {
  fleet(): Promise<Fleet>
  findProject(id: string): Project | undefined
}

/** Handlers of the nodes of a project. */
export function placementHandlers({ fleet, findProject }: PlacementsNeeds) {
  function checkKnown(projectId: string): void {
    if (findProject(projectId) === undefined) throw notFound('Project', projectId)
  }

  return {
    /** `GET /api/projects/:id/placements`: by name of the node. */
    list: async request => {
      const projectId = param(request, 'id')
      checkKnown(projectId)
      return json({ success: true, placements: (await fleet()).placements.ofProject(projectId) })
    },

    /** `PATCH /api/projects/:id/placements {add?, remove?}`: names nodes by id or name. */
    change: async request => {
      const projectId = param(request, 'id')
      checkKnown(projectId)
      const { add, remove } = readFields(await request.json(), placementFields)
      if (add.length + remove.length === 0) throw invalid('add', 'Nothing to change: name nodes in "add" or "remove"')
      const { actor } = request
      const { placements } = await fleet()
      const named = add.map(({ node, deployPath }) => ({ node, ...(deployPath !== undefined && { deployPath }) }))
      return json({ success: true, placements: await placements.change(projectId, { add: named, remove }, actor) })
    }
  } satisfies Record<string, Handler>
}
