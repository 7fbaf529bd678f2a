import type { AuditEntry } from '../model/audit.js'

/** An entry that is a leaf of the tree. */
export type SealedEntry = AuditEntry & { seq: number }

/** The order of the fields. New fields are added at the end. */
const fields = [
  'seq',
  'id',
  'at',
  'action',
  'actor',
  'tokenId',
  'tokenName',
  'role',
  'sessionId',
  'ip',
  'claimedIp',
  'projectId',
  'target',
  'detail',
  'ok',
  'failures'
] as const satisfies ReadonlyArray<keyof AuditEntry>

/**
 * Returns the canonical JSON of an entry, whose hash is its leaf. Fields that are null are left out, so that a field
 * of a later version does not change the text of earlier entries.
 */
export function entryText(entry: SealedEntry): string {
  const text: Partial<Record<keyof AuditEntry, unknown>> = {}
  for (const field of fields) if (entry[field] !== null) text[field] = entry[field]
  return JSON.stringify(text)
}
