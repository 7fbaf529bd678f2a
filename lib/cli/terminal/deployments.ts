import { oneLine } from '../../base/text.js'
import type { DeploymentStatus, ListedDeployment } from '../../model/deployment.js'
import { shownStatus, waitingOf, waitingRows } from '../../base/shared/api.js'
import type { ProjectStatus, ShownProject } from '../../model/project.js'
import { type Provenance, shortCommit } from '../../model/provenance.js'
import type { Marks, Waiting } from '../../model/marks.js'
import { type Column, cutToWidth } from './columns.js'
import type { Paint } from './output.js'
import { localTime, relativeTime } from './words.js'
import { plainText } from './terminal-text.js'

/** Maximum width of a message in columns. The record contains the whole message. */
const messageWidth = 60

export function paintStatus(paint: Paint, status: DeploymentStatus | ProjectStatus, text: string = status): string {
  if (status === 'success') return paint.green(text)
  if (status === 'failed') return paint.red(text)
  return status === 'idle' ? paint.dim(text) : paint.yellow(text)
}

/** A post-deploy script failed after its deployment had finished. */
const behindWords = 'failed in the background'

/** Returns the status of a deployment, that it waits, or that its script failed in the background afterwards. */
export function statusWords(row: ListedDeployment): string {
  if (heldOf(row) !== null) return 'waiting'
  return row.backgroundFailed ? behindWords : row.status
}

/** Returns what a deployment waits for. Older servers do not send its steps. */
export function heldOf(row: ListedDeployment): ReturnType<typeof waitingOf> {
  return (row.steps as unknown) === undefined ? null : waitingOf(row)
}

/** Returns what waits for somebody: `waits for confirmation until 18:34`. */
export function waitingWords({ for: reason, until }: Waiting, nowMs: number): string {
  const row = waitingRows[reason]
  return until === null || row.until === null ? row.words : row.until.words.replace('{time}', localTime(until, nowMs))
}

/** The status of a project in a list, and whether it is a failure, waits, or is locked. */
export interface ProjectState {
  status: ProjectStatus
  words: string
}

/** Returns the status that people see, with its marks: `waits for confirmation until 18:34, locked`. */
export function projectState(
  { id, status }: Pick<ShownProject, 'id' | 'status'>,
  marks: Marks,
  nowMs: number
): ProjectState {
  const ofIt = (each: { projectId: string | null }): boolean => each.projectId === id
  const isFailedBehind = marks.failedInBackground.includes(id)
  const waiting = marks.waiting.filter(ofIt)
  const isHeld = status === 'running' && waiting.some(({ deployId }) => deployId !== null)
  const words = [
    ...(isHeld ? [] : [isFailedBehind ? behindWords : status]),
    ...waiting.map(each => waitingWords(each, nowMs)),
    ...marks.locks.filter(ofIt).map(({ kind }) => (kind === 'lock' ? 'locked' : 'in maintenance'))
  ]
  return { status: shownStatus(status, isFailedBehind), words: words.join(', ') }
}

/** Returns the message of a deployment, shortened for a table. */
export function shownMessage(row: ListedDeployment): string {
  return cutToWidth(plainText(messageWords(row)), messageWidth)
}

export function deploymentColumns(paint: Paint, nowMs: number): Column<ListedDeployment>[] {
  return [
    { header: 'DEPLOYMENT', cell: row => row.id },
    {
      header: 'STATUS',
      cell: statusWords,
      paint: (text, row) => paintStatus(paint, shownStatus(row.status, row.backgroundFailed), text)
    },
    { header: 'MESSAGE', cell: shownMessage, shrinkTo: 16 },
    { header: 'COMMIT', cell: row => originWords(row.provenance), shrinkTo: 12, drop: 'last' },
    { header: 'STARTED', cell: row => relativeTime(row.startTime, nowMs) },
    { header: 'TOOK', cell: row => row.duration ?? '', align: 'right', drop: 'last' },
    { header: 'BY', cell: starterWords, shrinkTo: 8, drop: 'last' }
  ]
}

/*
 * Describes the provenance of a deployment in words. Servers older than this client send no provenance at all.
 */

/** Returns commit and branch, as `1a2b3c4* main`; the star marks uncommitted changes. Empty if both are unknown. */
export function originWords(provenance: Provenance | null | undefined): string {
  if (provenance === null || provenance === undefined) return ''
  const { commit, branch, tag, dirty } = provenance
  const digits = commit === null ? null : `${shortCommit(commit)}${dirty === true ? '*' : ''}`
  return [digits, tag ?? branch].filter(word => word !== null).join(' ')
}

/** Returns what started a deployment and, if the client sent it, who. */
export function starterWords({
  rollbackOf,
  undoOf,
  promotedFrom,
  triggerSource,
  provenance
}: ListedDeployment): string {
  if (promotedFrom) return `promotion of ${promotedFrom}`
  if (undoOf) return `undo of ${undoOf}`
  if (rollbackOf !== null) return `rollback of ${rollbackOf}`
  // Undefined for older servers, which do not send it.
  if (!provenance) return triggerSource
  const { source, ci, by, author } = provenance
  if (source === 'panel') return by === null ? 'panel' : `panel (${by})`
  if (ci === null) return author === null ? triggerSource : `${triggerSource} (${author})`
  return [ci.system, ci.run, ci.actor === null ? null : `(${ci.actor})`].filter(word => word !== null).join(' ')
}

/** Returns the message of a deployment, else the subject of its commit. */
export function messageWords({ message, provenance }: Pick<ListedDeployment, 'message' | 'provenance'>): string {
  return message || provenance?.subject || ''
}

/** Describes a deployment on one line: `storefront (production): Lower the prices (1a2b3c4 main), Drone 42 (ada)`. */
export function headline(row: ListedDeployment): string {
  const [words, origin] = [messageWords(row), originWords(row.provenance)]
  const what = [words, origin === '' ? '' : `(${origin})`].filter(word => word !== '').join(' ')
  const project = row.env ? `${row.projectName} (${row.env})` : row.projectName
  return oneLine(`${project}: ${what === '' ? '' : `${what}, `}${starterWords(row)}`)
}
