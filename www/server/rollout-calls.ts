import type { Given } from '../../lib/api/map/call.js'
import { createCall, placeOf } from './call.js'
import type { Client } from './client.js'

/** A page of rollouts. `before` is the id of the last rollout of the previous page. */
export type RolloutQuery = NonNullable<Given<'GET /api/rollouts'>['query']>
/** The API of rollouts. Each function rejects as `Client.ask` does. */
export type RolloutCalls = ReturnType<typeof createRolloutCalls>

/** Creates the calls. */
export function createRolloutCalls({ ask, send }: Pick<Client, 'ask' | 'send'>) {
  const call = createCall({ ask })
  return {
    /** Returns rollouts, the newest first. */
    list: async (query: RolloutQuery, signal?: AbortSignal) =>
      (await call('GET /api/rollouts', { query, signal })).rollouts,
    get: async (rolloutId: string, signal?: AbortSignal) =>
      (await call('GET /api/rollouts/:rolloutId', { rolloutId, signal })).rollout,
    /** Returns a node with the end of its output. */
    node: async (rolloutId: string, node: string, signal?: AbortSignal) =>
      (await call('GET /api/rollouts/:rolloutId/nodes/:node', { rolloutId, node, signal })).node,
    /** Returns the NDJSON stream of a rollout, which begins with the whole of it. */
    events: (rolloutId: string, signal: AbortSignal): Promise<Response> =>
      send('GET', placeOf('GET /api/rollouts/:rolloutId/events', { rolloutId }), {
        signal,
        headers: { accept: 'application/x-ndjson' }
      }),
    halt: async (rolloutId: string) =>
      (await call('POST /api/rollouts/:rolloutId/halt', { rolloutId, body: {} })).rollout,
    resume: async (rolloutId: string) => (await call('POST /api/rollouts/:rolloutId/resume', { rolloutId })).rollout,
    /** Lets the nodes of a wave and those after it go back; null: all. */
    revert: async (rolloutId: string, wave: number | null) =>
      (await call('POST /api/rollouts/:rolloutId/revert', { rolloutId, body: wave === null ? {} : { wave } })).rollout,
    approve: async (rolloutId: string) => (await call('POST /api/rollouts/:rolloutId/approve', { rolloutId })).rollout
  }
}
