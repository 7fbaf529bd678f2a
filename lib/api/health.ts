import { json } from '../http/route.js'
import type { Health } from '../system/health.js'
import type { Handler } from './route.js'

/** Whether the service works (§4.8), in detail; in a word: probe.ts. The same shape, 200 or 503. */
export function healthHandlers({ health }: { health: Health }) {
  return {
    detail: async () => {
      const detail = await health.detail()
      return json(detail, health.isWell(detail) ? 200 : 503)
    }
  } satisfies Record<string, Handler>
}
