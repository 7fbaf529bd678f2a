import type { Answered, Given } from '../../lib/api/map/call.js'
import { createCall } from './call.js'
import type { Client } from './client.js'

/** An enrollment with its token, which is shown once, and what to run on the machine. */
export type IssuedToken = Omit<Answered<'POST /api/enrollments'>, 'success'>
/** The API of nodes, enrollments and placements. Each function rejects as `Client.ask` does. */
export type FleetCalls = ReturnType<typeof createFleetCalls>

/** Creates the calls. */
export function createFleetCalls(client: Pick<Client, 'ask'>) {
  const call = createCall(client)
  return {
    nodes: async (signal?: AbortSignal) => (await call('GET /api/nodes', { signal })).nodes,
    /** Finds a node by its id or its name. */
    node: async (node: string, signal?: AbortSignal) => (await call('GET /api/nodes/:node', { node, signal })).node,
    updateNode: async (node: string, body: Given<'PATCH /api/nodes/:node'>['body']) =>
      (await call('PATCH /api/nodes/:node', { node, body })).node,
    drain: async (node: string, isDrained: boolean) =>
      (await call('PUT /api/nodes/:node/drain', { node, body: { drained: isDrained } })).node,
    /** Removes a node. Its files stay. */
    forget: (node: string) => call('DELETE /api/nodes/:node', { node }),
    enrollments: async (signal?: AbortSignal) => (await call('GET /api/enrollments', { signal })).enrollments,
    enroll: (body: Given<'POST /api/enrollments'>['body']): Promise<IssuedToken> =>
      call('POST /api/enrollments', { body }),
    revokeEnrollment: (id: string) => call('DELETE /api/enrollments/:id', { id }),
    placements: async (id: string, signal?: AbortSignal) =>
      (await call('GET /api/projects/:id/placements', { id, signal })).placements,
    place: async (id: string, body: Given<'PATCH /api/projects/:id/placements'>['body']) =>
      (await call('PATCH /api/projects/:id/placements', { id, body })).placements
  }
}
