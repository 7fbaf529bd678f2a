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

/*
 * The format of an export: JSON lines, which together give the root of the checkpoint in the last one.
 *
 *   {"svcAudit":2,"key":"<verifier key>"}
 *   {"leaf":"<base64>","entry":{"seq":7, …}}    an entry, as entry-text.ts writes it, and the hash of its leaf
 *   {"leaf":"<base64>","removed":8}             an entry that was removed from the log
 *   {"removedBlock":2,"root":"<base64>"}        256 removed entries: the block with this number, from 1
 *   {"leaf":"<base64>","omitted":9}             an entry outside the exported range
 *   {"omittedBlock":1,"root":"<base64>"}        256 entries outside it
 *   {"checkpoint":"<signed note>"}
 *
 * Every byte matters: a verifier accepts a line only in exactly this form. The hash of an entry can stand for the entry, so
 * the checkpoint has the extension `export <base64 of the SHA-256 of all lines before it>`: the server signs which entries
 * it left out. Exports of version 1 have a checkpoint without it.
 */

/** The version of the format. */
export const exportVersion = 2
/** The version of exports whose checkpoint does not sign the lines before it. */
export const unsignedVersion = 1
/** Returns the extension of the checkpoint of an export. `digest` is the SHA-256 of all lines before it, in base64. */
export const exportExtension = (digest: string): string => `export ${digest}`
/** The beginning of the line of a leaf. Its hash follows. */
export const leafStart = '{"leaf":"'
/** The length of a hash in base64. */
export const hashLength = 44
/** What is between the hash and the text of the entry. */
export const entryStart = '","entry":'

/** Returns the line of an entry. */
export function entryLine(leaf: string, text: string): string {
  return `${leafStart}${leaf}${entryStart}${text}}\n`
}

/** A line other than that of an entry. */
export type OtherLine =
  | { svcAudit: number; key: string }
  | { leaf: string; removed: number }
  | { leaf: string; omitted: number }
  | { removedBlock: number; root: string }
  | { omittedBlock: number; root: string }
  | { checkpoint: string }

/** Returns such a line. */
export function otherLine(line: OtherLine): string {
  return `${JSON.stringify(line)}\n`
}
