import { setImmediate as nextTurn } from 'node:timers/promises'
import { createHash } from 'node:crypto'
import { Refusal } from '../base/refusal.js'
import type { Reader } from '../store/database.js'
import { auditBlocks, auditLeaves, hasAuditAfter, sealedAudit } from '../store/tables/audit.js'
import { readCheckpoint, writeCheckpoint, type Checkpoint } from './checkpoint-text.js'
import { entryText, type SealedEntry } from './entry-text.js'
import { entryLine, exportExtension, exportVersion, otherLine } from './export-format.js'
import type { SignedCheckpoint } from './keeper.js'
import { trimmedAction } from './ranges.js'
import { readNote, signNote, type SignedNote } from './signed-note.js'
import { blockLeaves } from './tree.js'

/** The entries to export, by number, both ends included. */
export interface ExportRange {
  from: number
  to: number
}

/**
 * Returns the export of a range, in pieces of one block of entries, between which other work is done. Throws a Refusal
 * `changed_meanwhile` if entries were removed while it was read.
 */
export async function* exportAudit(
  db: Reader,
  checkpoint: SignedCheckpoint,
  range: ExportRange
): AsyncGenerator<string> {
  const { size, verifierKey } = checkpoint
  const digest = createHash('sha256')
  const hashed = (text: string): string => {
    digest.update(text)
    return text
  }
  yield hashed(otherLine({ svcAudit: exportVersion, key: verifierKey }))
  for (let block = 0; block * blockLeaves < size; block++) {
    yield hashed(linesOfBlock(db, { block, size, range }))
    await nextTurn()
  }
  if (hasAuditAfter(db, trimmedAction, size)) throw changedMeanwhile()
  yield otherLine({ checkpoint: signExport(checkpoint, digest.digest('base64')) })
}

/** Signs the checkpoint again, together with the digest of the lines before it. */
function signExport({ note, signers }: SignedCheckpoint, digest: string): string {
  const { text } = readNote(note) as SignedNote
  const checkpoint = readCheckpoint(text) as Checkpoint
  const extensions = [...checkpoint.extensions, exportExtension(digest)]
  return signNote(writeCheckpoint({ ...checkpoint, extensions }), signers)
}

function linesOfBlock(db: Reader, given: { block: number; size: number; range: ExportRange }): string {
  const { block, size, range } = given
  const [from, to] = [block * blockLeaves + 1, Math.min((block + 1) * blockLeaves, size)]
  const isOmitted = to < range.from || from > range.to
  const isComplete = to === (block + 1) * blockLeaves
  const root = isComplete ? auditBlocks(db, block, block).get(block)?.toString('base64') : undefined
  if (isOmitted && root !== undefined) return otherLine({ omittedBlock: block + 1, root })
  const leaves = auditLeaves(db, from, to)
  if (leaves.length === 0 && root !== undefined) return otherLine({ removedBlock: block + 1, root })
  const wanted = sealedAudit(db, Math.max(from, range.from), Math.min(to, range.to))
  const entries = new Map(wanted.map(entry => [entry.seq, entry as SealedEntry]))
  return leaves.map(({ seq, hash }) => lineOfLeaf(hash.toString('base64'), seq, { range, entries })).join('')
}

function lineOfLeaf(
  leaf: string,
  seq: number,
  { range, entries }: { range: ExportRange; entries: ReadonlyMap<number | null, SealedEntry> }
): string {
  const entry = entries.get(seq)
  if (entry !== undefined) return entryLine(leaf, entryText(entry))
  return otherLine(seq < range.from || seq > range.to ? { leaf, omitted: seq } : { leaf, removed: seq })
}

function changedMeanwhile(): Refusal {
  return new Refusal(
    'conflict',
    'changed_meanwhile',
    'The export was not completed: entries were removed from the audit log while it was read. Try again'
  )
}
