import {
  flag,
  integer,
  line,
  list,
  maxPathLength,
  nullable,
  object,
  optional,
  readFields,
  readRights,
  withDefault
} from '../base/fields.js'
import { invalid, notFound } from '../base/errors.js'
import type { Rollouts } from '../fleet/hub/fleet.js'
import { json } from '../http/core/route.js'
import type { DeploymentRow } from '../model/deployment.js'
import {
  enrollmentLimits,
  fleetLimits,
  type ListedNode,
  nodeLabels,
  nodeName,
  type NodeRelease,
  parseLabel
} from '../model/node.js'
import { ndjson } from '../http/streams.js'
import { rolloutStates } from '../model/rollout.js'
import { addressOf } from './client.js'
import {
  type ApiRequest,
  checkProject,
  type Handler,
  optionalBody,
  param,
  queryChoice,
  queryLimit,
  queryText
} from './route.js'
import type { ApiServices } from './services.js'

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

/** Handlers of nodes. A path names a node by its id or its name. */
export function nodeHandlers({ fleet, deployments }: ApiServices) {
  /** Returns the nodes, and the one that the path names. */
  async function place(request: ApiRequest) {
    const { nodes } = await fleet()
    return { nodes, node: nodes.get(param(request, 'node'), request.actor.projects) }
  }

  return {
    list: async ({ actor, query }) => {
      const { nodes } = await fleet()
      const projectId = queryText(query, 'projectId')
      if (projectId !== undefined) checkProject(actor, projectId, () => notFound('Project', projectId))
      const label = queryLabel(query)
      const filter = { ...(projectId !== undefined && { projectId }), ...(label !== undefined && { label }) }
      const found = nodes.list({ ...filter, scope: actor.projects })
      return json({ success: true, nodes: found, releases: releasesOf(found, deployments.find) })
    },

    get: async request => json({ success: true, node: (await place(request)).node }),

    update: async request => {
      const { nodes, node } = await place(request)
      const { name, labels } = readFields(await request.json(), nodeFields)
      const change = { ...(name !== undefined && { name }), ...(labels !== undefined && { labels }) }
      return json({ success: true, node: await nodes.update(node.id, change, request.actor) })
    },

    drain: async request => {
      const { nodes, node } = await place(request)
      const { drained } = readFields(await request.json(), drainFields)
      return json({ success: true, node: await nodes.drain(node.id, drained, request.actor) })
    },

    forget: async request => {
      const { nodes, node } = await place(request)
      await nodes.forget(node.id, request.actor)
      return json({ success: true, message: `The node "${node.name}" was removed` })
    }
  } satisfies Record<string, Handler>
}

/** Returns the releases that nodes have in place, each once. */
function releasesOf(
  nodes: readonly ListedNode[],
  find: (deployId: string) => DeploymentRow | undefined
): NodeRelease[] {
  const ids = new Set(nodes.flatMap(({ placements }) => placements.map(({ liveDeployId }) => liveDeployId)))
  return [...ids].flatMap(deployId => {
    const row = deployId === null ? undefined : find(deployId)
    if (row === undefined) return []
    const { id, message, triggerSource, undoOf, provenance, startTime } = row
    return [{ id, message, triggerSource, undoOf, provenance, startTime }]
  })
}

/** Reads `label=key=value` in the query. */
function queryLabel(query: URLSearchParams): { key: string; value: string } | undefined {
  const given = queryText(query, 'label')
  if (given === undefined) return undefined
  const label = parseLabel(given)
  if (label === null) throw invalid('label', `"label" is "${given}": expected <name>=<value>, for example zone=eu`)
  return label
}

/** Fields of `POST /api/enrollments`. */
export const enrollmentFields = {
  /** The name of the node. Default: the machine proposes its host name. */
  name: nullable(nodeName),
  /** Labels of the node, in addition to those that the machine proposes. */
  labels: withDefault(nodeLabels, {}),
  /** How long the token is valid. Default: one hour. */
  seconds: withDefault(
    integer(enrollmentLimits.minSeconds, enrollmentLimits.maxSeconds),
    enrollmentLimits.defaultSeconds
  )
}

/** Handlers of the one-time tokens with which machines become nodes. Only the answer of `create` contains the token. */
export function enrollmentHandlers(services: ApiServices) {
  const { fleet } = services
  return {
    list: async () => json({ success: true, enrollments: (await fleet()).enrollments.list() }),

    create: async request => {
      const given = readRights(await optionalBody(request), enrollmentFields)
      const { enrollments } = await fleet()
      const { enrollment, token } = await enrollments.create(given, request.actor)
      // An argument would be in the list of processes.
      const command = `SVC_ENROLL_TOKEN=${token} svc agent --hub ${addressOf(request, services)}`
      return json({ success: true, enrollment, token, command })
    },

    revoke: async request => {
      await (await fleet()).enrollments.revoke(param(request, 'id'), request.actor)
      return json({ success: true, message: 'The enrollment token was revoked' })
    }
  } satisfies Record<string, Handler>
}

/** The id or the name of a node. */
const nodeWord = line({ min: 1, max: fleetLimits.nameLength, trim: true })
/** Fields of a node to add to a project. */
export const placementItem = {
  node: nodeWord,
  deployPath: optional(line({ min: 1, max: maxPathLength, trim: true }))
}

/** Fields of `PATCH /api/projects/:id/placements`. */
export const placementFields = {
  /** Nodes to add, each with its own directory if `deployPath` is given. */
  add: withDefault(list(object(placementItem), { max: fleetLimits.nodes }), []),
  /** Nodes to remove. */
  remove: withDefault(list(nodeWord, { max: fleetLimits.nodes }), [])
}

/** Handlers of the nodes of a project. */
export function placementHandlers({ fleet, findProject }: ApiServices) {
  function checkKnown(projectId: string): void {
    if (findProject(projectId) === undefined) throw notFound('Project', projectId)
  }

  return {
    list: async request => {
      const projectId = param(request, 'id')
      checkKnown(projectId)
      return json({ success: true, placements: (await fleet()).placements.ofProject(projectId) })
    },

    change: async request => {
      const projectId = param(request, 'id')
      checkKnown(projectId)
      const { add, remove } = readFields(await request.json(), placementFields)
      if (add.length + remove.length === 0) throw invalid('add', 'Nothing to change: name nodes in "add" or "remove"')
      const { actor } = request
      const { placements } = await fleet()
      const named = add.map(({ node, deployPath }) => ({ node, ...(deployPath !== undefined && { deployPath }) }))
      return json({ success: true, ...(await placements.change(projectId, { add: named, remove }, actor)) })
    }
  } satisfies Record<string, Handler>
}

/** Fields of `POST /api/rollouts/:rolloutId/halt`. */
export const haltFields = {
  /** Why. It is shown with the rollout. */
  reason: nullable(line({ min: 1, max: 500, trim: true }))
}
/** Fields of `POST /api/rollouts/:rolloutId/revert`. */
export const revertFields = {
  /** The first wave that goes back; later ones go back, too. Default: all. */
  wave: nullable(integer(1, fleetLimits.waves))
}

/** Number of rollouts in a list, unless the query says otherwise. */
const rolloutListLimit = 50
/** Maximum number of rollouts in a list. */
const maxRolloutListLimit = 500

/** Handlers of rollouts. */
export function rolloutHandlers({ fleet }: ApiServices) {
  const rolloutsOf = async () => (await fleet()).rollouts
  const idOf = (request: ApiRequest) => param(request, 'rolloutId')

  /** Checks a rollout that a query names. */
  function checkSeen(rollouts: Rollouts, { actor }: ApiRequest, id: string): void {
    const projectId = rollouts.projectOf(id)
    if (projectId === undefined) throw notFound('Rollout', id)
    checkProject(actor, projectId, () => notFound('Rollout', id))
  }

  return {
    list: async request => {
      const rollouts = await rolloutsOf()
      const { query, actor } = request
      const projectId = queryText(query, 'projectId')
      if (projectId !== undefined) checkProject(actor, projectId, () => notFound('Project', projectId))
      const deployId = queryText(query, 'deployId')
      const state = queryChoice(query, 'state', rolloutStates)
      const before = queryText(query, 'before')
      if (before !== undefined) checkSeen(rollouts, request, before)
      const listed = rollouts.list({
        ...(projectId !== undefined && { projectId }),
        ...(deployId !== undefined && { deployId }),
        ...(state !== undefined && { state }),
        ...(before !== undefined && { before }),
        scope: actor.projects,
        limit: queryLimit(query, 'limit', { fallback: rolloutListLimit, max: maxRolloutListLimit })
      })
      return json({ success: true, rollouts: listed })
    },

    get: async request => json({ success: true, rollout: (await rolloutsOf()).get(idOf(request)) }),

    node: async request =>
      json({ success: true, node: (await rolloutsOf()).node(idOf(request), param(request, 'node')) }),

    events: async request => {
      const rollouts = await rolloutsOf()
      const id = idOf(request)
      // Refuses before the stream begins.
      rollouts.get(id)
      return ndjson(
        async (write, signal) => {
          for await (const event of rollouts.follow(id, signal)) await write(event)
        },
        { isBegun: true, lasting: true }
      )
    },

    halt: async request => {
      const { reason } = readFields(await optionalBody(request), haltFields)
      return json({ success: true, rollout: await (await rolloutsOf()).halt(idOf(request), reason, request.actor) })
    },

    resume: async request =>
      json({ success: true, rollout: await (await rolloutsOf()).resume(idOf(request), request.actor) }),

    revert: async request => {
      const { wave } = readFields(await optionalBody(request), revertFields)
      return json({ success: true, rollout: await (await rolloutsOf()).revert(idOf(request), wave, request.actor) })
    },

    approve: async request =>
      json({ success: true, rollout: await (await rolloutsOf()).approve(idOf(request), request.actor) })
  } satisfies Record<string, Handler>
}
