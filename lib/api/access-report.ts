import { json } from '../http/core/route.js'
import type { AccessReport } from '../model/access-report.js'
import type { Handler } from './route.js'

/** Handler of `GET /api/access/report`: which tokens can deploy where (model/access-report.ts). */
export function accessReportHandlers({ report }: { report(): AccessReport }) {
  return { read: () => json(report()) } satisfies Record<string, Handler>
}
