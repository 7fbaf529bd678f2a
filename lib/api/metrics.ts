import type { Metrics } from '../system/metrics.js'
import { metricsContentType } from '../system/metrics-text.js'
import type { Handler } from './route.js'

/** What a Prometheus server scrapes: text, version 0.0.4 of its format. */
export function metricsHandlers({ metrics }: { metrics: Metrics }) {
  return {
    read: () => {
      const headers = { 'content-type': metricsContentType, 'cache-control': 'no-store' }
      return { kind: 'bytes', status: 200, body: Buffer.from(metrics.text()), headers }
    }
  } satisfies Record<string, Handler>
}
