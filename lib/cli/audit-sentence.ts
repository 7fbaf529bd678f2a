import { countOf } from '../base/count.js'
import type { Verdict } from '../audit/verifier.js'

/** Returns how many entries an export contains, and how many of them only as hashes: "12 entries, 3 removed before". */
export function auditSentence({ entries, removed, omitted }: Pick<Verdict, 'entries' | 'removed' | 'omitted'>): string {
  const parts = [
    countOf(entries, 'entry', 'entries'),
    removed === 0 ? '' : `${removed} removed before`,
    omitted === 0 ? '' : `${omitted} not exported`
  ]
  return parts.filter(Boolean).join(', ')
}
