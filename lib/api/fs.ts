import { invalid } from '../base/refusal.js'
import { json } from '../http/route.js'
import { inclusions } from '../model/place.js'
import type { Places } from '../system/places.js'
import { queryChoice, queryPath } from './fields.js'
import type { Handler } from './route.js'

/** The server's directories, to choose a path from. */
export function fsHandlers({ places }: { places: Places }) {
  return {
    home: async () => json(await places.home()),

    list: async ({ query }) => {
      const path = queryPath(query, 'path')
      if (path === undefined) throw invalid('path', '"path" is missing: an absolute path is needed')
      return json(await places.list(path, queryChoice(query, 'include', inclusions) ?? 'both'))
    }
  } satisfies Record<string, Handler>
}
