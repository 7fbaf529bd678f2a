import { json } from '../http/route.js'
import type { Resources } from '../system/resources.js'
import type { Handler } from './route.js'

/** What the machine and the server use (§4.11). */
export function systemHandlers({ resources }: { resources: Resources }) {
  return {
    resources: async () => json(await resources.snapshot())
  } satisfies Record<string, Handler>
}
