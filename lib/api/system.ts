import { json } from '../http/route.js'
import type { History } from '../system/history.js'
import type { Resources } from '../system/resources.js'
import { queryLimit } from './fields.js'
import type { Handler } from './route.js'

/** What the machine and the server use (§4.11). */
export function systemHandlers({ resources, history }: { resources: Resources; history: Pick<History, 'read'> }) {
  return {
    resources: async () => json(await resources.snapshot()),

    /** The last 24 hours, a row for each `step` minutes (1 to 60, default 1): `{stepMinutes, to, items}`. */
    history: ({ query }) => json(history.read(queryLimit(query, 'step', { fallback: 1, max: 60 })))
  } satisfies Record<string, Handler>
}
