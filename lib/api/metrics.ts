import { type Metrics, metricsContentType } from '../machine/metrics.js'
import type { Handler } from './route.js'

/** Handler of `GET /metrics`: metrics in version 0.0.4 of the Prometheus text format. */
export function metricsHandlers({ metrics }: { metrics: Metrics }) {
  return {
    read: async () => {
      const headers = { 'content-type': metricsContentType, 'cache-control': 'no-store' }
      return { kind: 'bytes', status: 200, body: Buffer.from(await metrics.text()), headers }
    }
  } satisfies Record<string, Handler>
}
