import type { Inclusion, PlaceHome, PlaceListing } from '../../lib/model/place.js'
import type { Client } from './client.js'

/** Looking at the server's own directories. Each rejects as Client.ask does; a place kept private is a Refused 403. */
export interface PlaceCalls {
  home(signal?: AbortSignal): Promise<PlaceHome>
  /** `path` is absolute. One that is not there, or is no directory, lists as empty and says so. */
  list(path: string, include: Inclusion, signal?: AbortSignal): Promise<PlaceListing>
}

export function createPlaceCalls({ ask }: Pick<Client, 'ask'>): PlaceCalls {
  return {
    home: signal => ask('GET', 'api/fs/home', { signal }),
    list: (path, include, signal) => ask('GET', `api/fs/list?${new URLSearchParams({ path, include })}`, { signal })
  }
}
