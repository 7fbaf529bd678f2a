import { json } from '../http/core/route.js'
import type { Health } from '../machine/health.js'
import type { Handler } from './route.js'

/** Handler of `GET /api/health/detail` (§4.8): 200 if the server is healthy, otherwise 503 with the same fields. */
export function healthHandlers({ health }: { health: Health }) {
  return {
    detail: async () => {
      const detail = await health.detail()
      return json(detail, health.isWell(detail) ? 200 : 503)
    }
  } satisfies Record<string, Handler>
}
