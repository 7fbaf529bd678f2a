import { invalid } from '../base/errors.js'
import { json } from '../http/core/route.js'
import { inclusions } from '../model/place.js'
import type { Places } from '../machine/places.js'
import { queryChoice, queryPath } from './query.js'
import type { Handler } from './route.js'

/** Handlers that list directories of the server, so that a user can choose a path. */
export function fsHandlers({ places }: { places: Places }) {
  return {
    home: async () => json(await places.home()),

    list: async ({ query }) => {
      const path = queryPath(query, 'path')
      if (path === undefined) throw invalid('path', '"path" is missing: expected an absolute path')
      return json(await places.list(path, queryChoice(query, 'include', inclusions) ?? 'both'))
    }
  } satisfies Record<string, Handler>
}
