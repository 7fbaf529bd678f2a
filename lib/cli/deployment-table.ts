import { failedInBackground, type DeploymentRow, type DeploymentStatus } from '../model/deployment.js'
import type { ProjectStatus } from '../model/project.js'
import type { Paint } from './colors.js'
import type { Column } from './table.js'
import { relativeTime } from './units.js'

/** A state in its colour. */
export function paintStatus(paint: Paint, status: DeploymentStatus | ProjectStatus, text: string = status): string {
  if (status === 'success') return paint.green(text)
  if (status === 'failed') return paint.red(text)
  return status === 'idle' ? paint.dim(text) : paint.yellow(text)
}

/** Its status, and whether its script has failed since, in the background. */
export function statusWords(row: DeploymentRow): string {
  return failedInBackground(row) ? `${row.status}, failed in the background` : row.status
}

/** How deployments are listed. */
export function deploymentColumns(paint: Paint, nowMs: number): Column<DeploymentRow>[] {
  return [
    { header: 'DEPLOYMENT', cell: row => row.id },
    { header: 'STATUS', cell: statusWords, paint: (text, row) => paintStatus(paint, failedInBackground(row) ? 'failed' : row.status, text) },
    { header: 'STARTED', cell: row => relativeTime(row.startTime, nowMs) },
    { header: 'TOOK', cell: row => row.duration ?? '', align: 'right' },
    {
      header: 'BY',
      cell: row => (row.rollbackOf === null ? row.triggerSource : `rollback of ${row.rollbackOf}`),
      shrinkTo: 8
    },
    { header: 'MESSAGE', cell: row => row.message ?? '', shrinkTo: 8 }
  ]
}
