/* Has a thread or a helper process recover the extraction of a journal. */
import { join } from 'node:path'
import { removeJournalFiles, type PlacedDecision } from '../undo.js'
import type { Executor, Outcome } from './extract-threads.js'

/** The part of the data directory that extraction needs. */
export interface ExtractionHome {
  /**
   * Absolute path of a directory. It contains `<id>.undo` until the result of an extraction is recorded, and
   * `<id>.manifest` from then on.
   */
  deployments: string
}

/** The result of a recovery: what it did, and the edited files that it kept. */
export type Recovered = Extract<Outcome, { kind: 'recovered' }>

/** Recovers the extraction of a journal. Throws if that is not possible now. */
export async function putBack(
  executor: Executor,
  job: { journalPath: string; placed: PlacedDecision },
  signal: AbortSignal
): Promise<Recovered> {
  const outcome = await executor.run({ kind: 'recover', ...job }, signal)
  if (outcome.kind === 'recovered') return outcome
  if (outcome.kind === 'failed') throw outcome.error
  throw new Error(notPutBack)
}

/** Error for a target whose file system does not respond. */
export const notPutBack =
  'The target is not put back yet: its file system does not respond. The next deployment or start tries again'

/** Returns the path of the journal of an extraction. */
export function journalPathOf({ deployments }: ExtractionHome, deployId: string): string {
  return join(deployments, `${deployId}.undo`)
}

/** Removes the journal of an extraction whose end is recorded. */
export async function removeJournal(home: ExtractionHome, deployId: string): Promise<void> {
  removeJournalFiles(journalPathOf(home, deployId))
}
