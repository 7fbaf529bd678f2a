/*
 * Extractions that stay open: their files are in place, and the earlier ones can still be put back (undo.ts). A
 * deployment stays open while it is checked or waits for its confirmation.
 */
import { Refusal } from '../../base/errors.js'
import type { Displaced } from '../displaced.js'
import { describeJournal, openStateOfJournal, type OpenState, type PlacedDecision, type Recovery } from '../undo.js'
import type { Executors } from './executors.js'
import { journalPathOf, putBack, type ExtractionHome, type Recovered } from './recover-job.js'

/** The extractions that are placed but not settled. */
export interface OpenExtractions {
  decide(deployId: string): PlacedDecision
  /** Records that an extraction was reverted. Called and retried like `RecordComplete`. */
  onReverted(deployId: string): Promise<unknown>
}

/** Reverts every open extraction, and records nothing. */
export const alwaysRevert: OpenExtractions = { decide: () => 'revert', onReverted: async () => {} }

/** The 409 for a target in which another deployment is still open. */
export function heldBy(deployId: string): Refusal {
  const sentence =
    `Nothing was changed: deployment ${deployId} into the same directory still waits for its checks or its ` +
    'confirmation. Confirm or revert it first'
  return new Refusal('conflict', 'target_held', sentence)
}

/**
 * Completes an extraction that stayed open: from now on it is not put back. The journal stays until `endJournal`.
 * Returns whether it is complete; otherwise it had been put back before.
 */
export async function settleExtraction(executors: Executors, home: ExtractionHome, deployId: string): Promise<boolean> {
  const { recovery } = await endOpen(executors, { home, deployId, placed: 'settle' })
  return recovery === 'complete'
}

/**
 * Puts back what an extraction that stayed open has replaced, and keeps files that were edited since. Resolves with
 * those. The journal stays until `removeJournal`. Refuses (`unavailable`, revert_failed) if nothing can be put back.
 */
export async function revertExtraction(
  executors: Executors,
  home: ExtractionHome,
  deployId: string
): Promise<Displaced | null> {
  const { recovery, displaced } = await endOpen(executors, { home, deployId, placed: 'revert' })
  if (recovery === 'reverted') return displaced
  const why = reasonsOfFailure[recovery] ?? `the undo journal says "${recovery}"`
  throw new Refusal('unavailable', 'revert_failed', `Cannot put the earlier files back: ${why}`)
}

const reasonsOfFailure: Partial<Record<Recovery, string>> = {
  absent: 'the target directory does not exist, or its path leads to another one. Check that its disk is mounted',
  lost: 'the staging directory with the earlier files does not exist. Deploy again',
  complete: 'the deployment is already settled'
}

async function endOpen(
  executors: Executors,
  { home, deployId, placed }: { home: ExtractionHome; deployId: string; placed: 'revert' | 'settle' }
): Promise<Recovered> {
  const journalPath = journalPathOf(home, deployId)
  const executor = await executors.ofJournal(describeJournal(journalPath)?.helper ?? null)
  return putBack(executor, { journalPath, placed }, AbortSignal.timeout(openEndMs))
}

/** Time to complete or to put back a deployment. One with 200,000 files takes some seconds. */
const openEndMs = 10 * 60_000

/** Returns whether an extraction may still be put back, or is being put back; null if neither. */
export function openState(home: ExtractionHome, deployId: string): OpenState {
  return openStateOfJournal(journalPathOf(home, deployId))
}
