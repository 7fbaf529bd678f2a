import type { Given } from '../../api/map/call.js'
import type { RolloutEvent } from '../../model/rollout.js'
import { createCall, requestOf } from './call.js'
import type { Client } from './client.js'
import { readNdjson, streamBroken } from './streams.js'

/** Timeout for silence on a stream of events. The server sends nothing while a rollout waits, so it is long. */
const eventSilenceMs = 24 * 60 * 60_000

/** A change of the nodes of a project. Nodes are named by id or name. */
export type PlacementChange = NonNullable<Given<'PATCH /api/projects/:id/placements'>['body']>
/** A filter for a list of rollouts. */
export type RolloutQuery = NonNullable<Given<'GET /api/rollouts'>['query']>
/** The API of the fleet as functions. */
export type FleetApi = ReturnType<typeof createFleetApi>

/** Builds the API of the fleet on a client. */
export function createFleetApi(client: Client) {
  const call = createCall(client)
  return {
    nodes: async (query: Given<'GET /api/nodes'>['query']) => (await call('GET /api/nodes', { query })).nodes,
    /** Returns a node by its id or name. */
    node: async (node: string) => (await call('GET /api/nodes/:node', { node })).node,
    updateNode: async (node: string, body: Given<'PATCH /api/nodes/:node'>['body']) =>
      (await call('PATCH /api/nodes/:node', { node, body })).node,
    drain: async (node: string, drained: boolean) =>
      (await call('PUT /api/nodes/:node/drain', { node, body: { drained } })).node,
    forget: async (node: string): Promise<void> => void (await call('DELETE /api/nodes/:node', { node })),
    enrollments: async () => (await call('GET /api/enrollments')).enrollments,
    enroll: (body: Given<'POST /api/enrollments'>['body']) => call('POST /api/enrollments', { body }),
    revokeEnrollment: async (id: string): Promise<void> => void (await call('DELETE /api/enrollments/:id', { id })),
    placements: async (id: string) => (await call('GET /api/projects/:id/placements', { id })).placements,
    place: (id: string, body: PlacementChange) => call('PATCH /api/projects/:id/placements', { id, body }),
    rollouts: async (query: RolloutQuery) => (await call('GET /api/rollouts', { query })).rollouts,
    rollout: async (rolloutId: string) => (await call('GET /api/rollouts/:rolloutId', { rolloutId })).rollout,
    halt: async (rolloutId: string, reason: string | undefined) =>
      (await call('POST /api/rollouts/:rolloutId/halt', { rolloutId, body: { reason } })).rollout,
    resume: async (rolloutId: string) => (await call('POST /api/rollouts/:rolloutId/resume', { rolloutId })).rollout,
    /** Lets nodes go back, from this wave on; undefined: all. */
    revert: async (rolloutId: string, wave: number | undefined) =>
      (await call('POST /api/rollouts/:rolloutId/revert', { rolloutId, body: { wave } })).rollout,
    approve: async (rolloutId: string) => (await call('POST /api/rollouts/:rolloutId/approve', { rolloutId })).rollout,
    /** Follows a rollout until its line `end`. Throws `stream_broken` if the connection is lost before. */
    async *follow(rolloutId: string, signal: AbortSignal): AsyncGenerator<RolloutEvent> {
      const events = { rolloutId, accept: 'application/x-ndjson', signal } as const
      const answer = await client.open(requestOf('GET /api/rollouts/:rolloutId/events', events))
      answer.setTimeout(eventSilenceMs, () => answer.destroy(streamBroken()))
      for await (const value of readNdjson(answer)) {
        const event = value as unknown as RolloutEvent
        yield event
        if (event.type === 'end') return
      }
      throw streamBroken()
    }
  }
}
