import { json } from '../http/core/route.js'
import type { History } from '../machine/history.js'
import type { Resources } from '../machine/resources.js'
import { queryLimit } from './query.js'
import type { Handler } from './route.js'

/** Handlers of the resource usage of the machine and the server (§4.11). */
export function systemHandlers({ resources, history }: { resources: Resources; history: Pick<History, 'read'> }) {
  return {
    resources: async () => json(await resources.snapshot()),

    /** `GET /api/system/history?step=`: the last 24 hours, one row per `step` minutes (1 to 60, default 1). */
    history: ({ query }) => json(history.read(queryLimit(query, 'step', { fallback: 1, max: 60 })))
  } satisfies Record<string, Handler>
}
