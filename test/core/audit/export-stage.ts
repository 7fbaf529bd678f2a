import { exportAudit, type ExportRange } from '../../../lib/core/audit/export.js'
import type { SignedCheckpoint } from '../../../lib/core/audit/keeper.js'
import { ExportVerifier, type Verdict, type VerifierOptions } from '../../../lib/core/audit/verifier.js'
import type { Log } from './stage.js'

/** Returns the export of a log. */
export async function exported(log: Log, range: Partial<ExportRange> = {}): Promise<string> {
  const checkpoint = (await log.keeper.current()) as SignedCheckpoint
  let text = ''
  for await (const piece of exportAudit(log.store, checkpoint, { from: 1, to: checkpoint.size, ...range }))
    text += piece
  return text
}

/** Verifies an export, given in pieces of this size. */
export function verified(text: string | Buffer, options: VerifierOptions = {}, pieceBytes = 1000): Verdict {
  const verifier = new ExportVerifier(options)
  const bytes = Buffer.from(text)
  for (let at = 0; at < bytes.length; at += pieceBytes) verifier.push(Buffer.from(bytes.subarray(at, at + pieceBytes)))
  return verifier.end()
}
