import type { Answered, Given } from '../../lib/api/map/call.js'
import { createCall } from './call.js'
import { ifMatch, type Client } from './client.js'

/** The fields of a target to write. Missing fields keep their value. */
export type TargetFields = NonNullable<Given<'PUT /api/notification-targets/:id'>['body']>
/** All targets, and what the form for a new one needs. */
export type TargetList = Answered<'GET /api/notification-targets'>
/** The API of notification targets. Each function rejects as `Client.ask` does. */
export type TargetCalls = ReturnType<typeof createTargetCalls>

/** Creates the calls. */
export function createTargetCalls(client: Pick<Client, 'ask'>) {
  const call = createCall(client)
  return {
    list: (signal?: AbortSignal) => call('GET /api/notification-targets', { signal }),
    create: (body: TargetFields) => call('POST /api/notification-targets', { body }),
    /** Updates a target. The server refuses with `changed_since` if `tag` is not the `updatedAt` of the current state. */
    update: (id: string, body: TargetFields, tag: string | null) =>
      call('PUT /api/notification-targets/:id', { id, body, headers: ifMatch(tag) }),
    remove: (id: string) => call('DELETE /api/notification-targets/:id', { id }),
    test: (id: string, signal?: AbortSignal) => call('POST /api/notification-targets/:id/test', { id, signal }),
    projects: (signal?: AbortSignal) => call('GET /api/projects', { signal })
  }
}
