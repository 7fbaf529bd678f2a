import type { Inclusion, PlaceHome, PlaceListing } from '../../lib/model/place.js'
import type { Client } from './client.js'

/**
 * Browses the directories of the server. Each function rejects as `Client.ask` does; a private place is a Refused 403.
 */
export interface PlaceCalls {
  home(signal?: AbortSignal): Promise<PlaceHome>
  /** Lists a directory by its absolute path. A missing path or a file returns an empty listing that says so. */
  list(path: string, include: Inclusion, signal?: AbortSignal): Promise<PlaceListing>
}

/** Creates the calls. */
export function createPlaceCalls({ ask }: Pick<Client, 'ask'>): PlaceCalls {
  return {
    home: signal => ask('GET', 'api/fs/home', { signal }),
    list: (path, include, signal) => ask('GET', `api/fs/list?${new URLSearchParams({ path, include })}`, { signal })
  }
}
