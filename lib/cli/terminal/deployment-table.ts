import type { DeploymentStatus, ListedDeployment } from '../../model/deployment.js'
import type { ProjectStatus } from '../../model/project.js'
import type { Paint } from './colors.js'
import { messageWords, originWords, starterWords } from './origin-words.js'
import type { Column } from './table.js'
import { plainText } from './terminal-text.js'
import { relativeTime } from './units.js'
import { cutToWidth } from './width.js'

/** Maximum width of a message in columns. The record contains the whole message. */
const messageWidth = 60

/** Returns a status in its colour. */
export function paintStatus(paint: Paint, status: DeploymentStatus | ProjectStatus, text: string = status): string {
  if (status === 'success') return paint.green(text)
  if (status === 'failed') return paint.red(text)
  return status === 'idle' ? paint.dim(text) : paint.yellow(text)
}

/** Returns the status of a deployment, and whether its background script failed afterwards. */
export function statusWords(row: ListedDeployment): string {
  return row.backgroundFailed ? `${row.status}, failed in the background` : row.status
}

/** Returns the message of a deployment, shortened for a table. */
export function shownMessage(row: ListedDeployment): string {
  return cutToWidth(plainText(messageWords(row)), messageWidth)
}

/** Returns the columns of a list of deployments. */
export function deploymentColumns(paint: Paint, nowMs: number): Column<ListedDeployment>[] {
  return [
    { header: 'DEPLOYMENT', cell: row => row.id },
    {
      header: 'STATUS',
      cell: statusWords,
      paint: (text, row) => paintStatus(paint, row.backgroundFailed ? 'failed' : row.status, text)
    },
    { header: 'MESSAGE', cell: shownMessage, shrinkTo: 8 },
    { header: 'COMMIT', cell: row => originWords(row.provenance), shrinkTo: 8 },
    { header: 'STARTED', cell: row => relativeTime(row.startTime, nowMs) },
    { header: 'TOOK', cell: row => row.duration ?? '', align: 'right' },
    { header: 'BY', cell: starterWords, shrinkTo: 8 }
  ]
}
