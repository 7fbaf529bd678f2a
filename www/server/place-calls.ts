import type { Inclusion } from '../../lib/model/project.js'
import { createCall } from './call.js'
import type { Client } from './client.js'

/**
 * Browses the directories of the server. Each function rejects as `Client.ask` does; a private place is a Refused 403.
 */
export type PlaceCalls = ReturnType<typeof createPlaceCalls>

/** Creates the calls. */
export function createPlaceCalls(client: Pick<Client, 'ask'>) {
  const call = createCall(client)
  return {
    home: (signal?: AbortSignal) => call('GET /api/fs/home', { signal }),
    /** Lists a directory by its absolute path. A missing path or a file returns an empty listing that says so. */
    list: (path: string, include: Inclusion, signal?: AbortSignal) =>
      call('GET /api/fs/list', { query: { path, include }, signal })
  }
}
