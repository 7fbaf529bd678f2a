import { integer, line, nullable, readFields } from '../base/fields.js'
import { notFound } from '../base/errors.js'
import type { Fleet, Rollouts } from '../fleet/hub/fleet.js'
import { json } from '../http/core/route.js'
import { ndjson } from '../http/streams.js'
import { fleetLimits } from '../model/node.js'
import { rolloutStates } from '../model/rollout.js'
import { optionalBody } from './optional-body.js'
import { queryChoice, queryLimit, queryText } from './query.js'
import { type ApiRequest, type Handler, param } from './route.js'
import { checkProject } from './scope.js'

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
export const rolloutListLimit = 50
/** Maximum number of rollouts in a list. */
export const maxRolloutListLimit = 500

/** Dependencies of the handlers of rollouts. */
export interface RolloutsNeeds {
  fleet(): Promise<Fleet>
}

/** Handlers of rollouts. */
export function rolloutHandlers({ fleet }: RolloutsNeeds) {
  const rolloutsOf = async () => (await fleet()).rollouts
  const idOf = (request: ApiRequest) => param(request, 'rolloutId')

  /** Checks a rollout that a query names. */
  function checkSeen(rollouts: Rollouts, { actor }: ApiRequest, id: string): void {
    const projectId = rollouts.projectOf(id)
    if (projectId === undefined) throw notFound('Rollout', id)
    checkProject(actor, projectId, () => notFound('Rollout', id))
  }

  return {
    /** `GET /api/rollouts`: the newest first. */
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

    /** `GET /api/rollouts/:rolloutId`: with its nodes. */
    get: async request => json({ success: true, rollout: (await rolloutsOf()).get(idOf(request)) }),

    /** `GET /api/rollouts/:rolloutId/nodes/:node`: with all that is known about the node. */
    node: async request =>
      json({ success: true, node: (await rolloutsOf()).node(idOf(request), param(request, 'node')) }),

    /** `GET /api/rollouts/:rolloutId/events`: follows the rollout until it ends, or is halted. */
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

    /** `POST /api/rollouts/:rolloutId/halt {reason?}`: no other node begins. */
    halt: async request => {
      const { reason } = readFields(await optionalBody(request), haltFields)
      return json({ success: true, rollout: await (await rolloutsOf()).halt(idOf(request), reason, request.actor) })
    },

    /** `POST /api/rollouts/:rolloutId/resume`. */
    resume: async request =>
      json({ success: true, rollout: await (await rolloutsOf()).resume(idOf(request), request.actor) }),

    /** `POST /api/rollouts/:rolloutId/revert {wave?}`: nodes go back to what they had. */
    revert: async request => {
      const { wave } = readFields(await optionalBody(request), revertFields)
      return json({ success: true, rollout: await (await rolloutsOf()).revert(idOf(request), wave, request.actor) })
    },

    /** `POST /api/rollouts/:rolloutId/approve`: begins the next wave. */
    approve: async request =>
      json({ success: true, rollout: await (await rolloutsOf()).approve(idOf(request), request.actor) })
  } satisfies Record<string, Handler>
}
