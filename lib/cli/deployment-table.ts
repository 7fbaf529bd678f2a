import type { DeploymentRow, DeploymentStatus } from '../model/deployment.js'
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

/** How deployments are listed. */
export function deploymentColumns(paint: Paint, nowMs: number): Column<DeploymentRow>[] {
  return [
    { header: 'DEPLOYMENT', cell: row => row.id },
    { header: 'STATUS', cell: row => row.status, paint: (text, row) => paintStatus(paint, row.status, text) },
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
