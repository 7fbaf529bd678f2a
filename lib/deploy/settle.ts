/* The end of a deployment that was held: it is settled, or the earlier files are put back. */
import { countOf } from '../base/text.js'
import { messageOf } from '../base/errors.js'
import type { DeploymentRow, DeploymentStep, RevertReason } from '../model/deployment.js'
import type { Displaced } from '../install/displaced.js'
import type { Executors } from '../install/unpack/executors.js'
import { revertExtraction, settleExtraction } from '../install/unpack/open-extraction.js'
import { removeJournal } from '../install/unpack/recover-job.js'
import { liveDeployment } from '../store/tables/deployments.js'
import type { DeployNeeds } from './needs.js'
import { revertedPatch } from './open-deployments.js'
import { isExtracted, recordProgress } from './record.js'
import type { Output } from './output/output.js'

/** Maximum number of paths in a sentence about files that are not back. */
const shownPaths = 10

/** Dependencies of the end of a held deployment. */
export interface SettleNeeds extends Pick<DeployNeeds, 'store' | 'home' | 'clock' | 'audit' | 'log'> {
  executors: Executors
}

/** A held deployment. */
export interface HeldDeployment {
  row: DeploymentRow
  output: Output
}

/** Settles a deployment: from now on its files stay. Its result is not recorded yet. */
export async function settle({ executors, home }: SettleNeeds, { row }: HeldDeployment): Promise<void> {
  if (!(await settleExtraction(executors, home, row.id))) throw new Error('The earlier files have been put back')
}

/**
 * Puts the earlier files back and records that. Resolves with a sentence about those that could not be put back, or with
 * null. Throws if that is not possible now; the record then says what is to be
 * done, and the next start or deployment tries again.
 */
export async function revert(
  needs: SettleNeeds,
  { row, output }: HeldDeployment,
  steps: DeploymentStep[]
): Promise<string | null> {
  const { store, home, clock, executors, log } = needs
  const displaced = await revertExtraction(executors, home, row.id)
  Object.assign(row, revertedPatch(row, clock.now()))
  try {
    await store.write(tx => recordProgress(tx, row.id, { ...row, steps, status: 'running' }))
    await removeJournal(home, row.id)
  } catch (error) {
    log(`Cannot record yet that the files before deployment ${row.id} are back`, error)
  }
  const notBack = displaced?.notBack ?? []
  const isBack = displaced === null || notBack.length === 0
  output.say(`→ ${backSentence(needs, row)}${isBack ? '' : ', except what could not be put back'}`)
  if (displaced !== null && displaced.count > 0) output.say(`→ ${displacedSentence(displaced)}`)
  if (isBack) return null
  const missing = missingSentence(displaced.directory, notBack)
  output.say(`! ${missing}`)
  needs.audit({
    action: 'deployment.revert_failed',
    actor: { name: 'system', ip: null },
    projectId: row.projectId,
    target: row.id,
    detail: missing,
    ok: false
  })
  return missing
}

/** Returns the sentence that says which files are in the target now. */
export function backSentence({ store }: Pick<SettleNeeds, 'store'>, row: DeploymentRow): string {
  // If the record could not be written yet, it still says that this deployment is live.
  const live = liveDeployment(store, row.projectId)
  const isKnown = live !== undefined && live.id !== row.id
  return isKnown ? `the earlier files are back, ${live.id} is live` : 'the earlier files are back'
}

function displacedSentence({ directory, paths, count }: Displaced): string {
  const more = count > paths.length ? `, and ${count - paths.length} more` : ''
  return `${countOf(count, 'file')} edited meanwhile kept in ${directory}: ${paths.join(', ')}${more}`
}

function missingSentence(directory: string, notBack: readonly string[]): string {
  const more = notBack.length > shownPaths ? `, and ${notBack.length - shownPaths} more` : ''
  const paths = notBack.slice(0, shownPaths).join(', ')
  return `${countOf(notBack.length, 'earlier file')} not back, something is in the way: ${paths}${more}. Copies are in ${directory}/.earlier`
}

/** Reports a revert that failed. It is never silent: it is in the output, in the log and in the audit log. */
export function reportFailedRevert(needs: SettleNeeds, { row }: HeldDeployment, error: unknown): string {
  const why = messageOf(error)
  needs.audit({
    action: 'deployment.revert_failed',
    actor: { name: 'system', ip: null },
    projectId: row.projectId,
    target: row.id,
    detail: why,
    ok: false
  })
  needs.log(`Cannot put back the files before deployment ${row.id}. The next start or deployment tries again`, error)
  return `the earlier files are not back yet: ${why}. The next start or deployment tries again`
}

/** Whether a deployment was stopped before everything that comes before its checks was done. */
export function wasCutShort({ steps }: Pick<DeploymentRow, 'steps'>): boolean {
  return !isExtracted(steps) || !steps.some(({ name }) => name === 'check' || name === 'confirm')
}

/** Why a start puts a held deployment back, or null if it can continue. */
export function restartReason(row: DeploymentRow, nowMs: number): RevertReason | null {
  if (row.revertReason !== null) return row.revertReason
  if (wasCutShort(row)) return 'restart'
  const isPast = row.holdUntil === null || Date.parse(row.holdUntil) <= nowMs
  if (!isPast) return null
  return row.steps.some(({ name }) => name === 'confirm') ? 'confirm' : 'restart'
}
