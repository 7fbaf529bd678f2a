import { deflateRawSync, inflateRawSync } from 'node:zlib'
import type { Reader, Transaction } from '../database.js'
import { bytes, flag, nullable, number, rowReader, text, valueReader } from './table.js'

/*
 * The receipts of deployments. The end of a deployment owes one: the row has no text yet. A receipt is in the database, and
 * not a file beside it, so that its place in the chain, its text, a backup and the other hubs of a cluster always agree.
 */

export interface StoredReceipt {
  deployId: string
  projectId: string
  /** Its number in the chain of the project. */
  number: number
  /** SHA-256 of the text. */
  sha256: string
  issuedAt: string
  text: string
  /** Whether it came with an import: it is part of the chain of another server. */
  isImported: boolean
}

interface Row {
  deployId: string
  projectId: string
  number: number | null
  sha256: string | null
  issuedAt: string | null
  content: Uint8Array | null
  isImported: boolean
}

const readRow = rowReader<Row>('receipts', {
  deployId: text,
  projectId: text,
  number: nullable(number),
  sha256: nullable(text),
  issuedAt: nullable(text),
  content: nullable(bytes),
  isImported: flag
})
const readId = valueReader('receipts.deployId', text)

/** Maximum size of a text that is read: more than any receipt has. */
const maxTextBytes = 64 * 1024

function receiptOf(row: Row): StoredReceipt | null {
  const { content, ...others } = row
  const { number: place, sha256, issuedAt } = others
  if (place === null || sha256 === null || issuedAt === null || content === null) return null
  const inflated = inflateRawSync(content, { maxOutputLength: maxTextBytes }).toString()
  return { ...others, number: place, sha256, issuedAt, text: inflated }
}

/** Notes that a deployment gets a receipt. */
export function oweReceipt(tx: Transaction, { id, projectId }: { id: string; projectId: string }): void {
  tx.run('INSERT OR IGNORE INTO receipts (deployId, projectId, isImported) VALUES (?, ?, 0)', id, projectId)
}

/** Returns the deployments that get a receipt, in the order in which they ended. */
export function owedReceipts(db: Reader): string[] {
  return db.all('SELECT deployId FROM receipts WHERE content IS NULL ORDER BY position').map(readId)
}

/** Writes the receipt of a deployment that gets one. Returns false if it does not, or has one already. */
export function putReceipt(tx: Transaction, receipt: Omit<StoredReceipt, 'projectId' | 'isImported'>): boolean {
  const { deployId, number: place, sha256, issuedAt } = receipt
  const content = deflateRawSync(receipt.text)
  const sql = `UPDATE receipts SET number = ?, sha256 = ?, issuedAt = ?, content = ?
    WHERE deployId = ? AND content IS NULL`
  return tx.run(sql, place, sha256, issuedAt, content, deployId) > 0
}

/** Adds a receipt of another server. Returns false if the deployment has one. */
export function importReceipt(tx: Transaction, receipt: Omit<StoredReceipt, 'isImported'>): boolean {
  const { deployId, projectId, number: place, sha256, issuedAt } = receipt
  const sql = `INSERT OR IGNORE INTO receipts (deployId, projectId, number, sha256, issuedAt, content, isImported)
    VALUES (?, ?, ?, ?, ?, ?, 1)`
  return tx.run(sql, deployId, projectId, place, sha256, issuedAt, deflateRawSync(receipt.text)) > 0
}

/** Returns the receipt of a deployment; null: it gets one; undefined: it does not. */
export function findReceipt(db: Reader, deployId: string): StoredReceipt | null | undefined {
  return db.all('SELECT * FROM receipts WHERE deployId = ?', deployId).map(readRow).map(receiptOf)[0]
}

/** Returns the last receipt that this server made for a project. */
export function lastReceipt(db: Reader, projectId: string): StoredReceipt | undefined {
  const sql = `SELECT * FROM receipts WHERE projectId = ? AND NOT isImported AND number IS NOT NULL
    ORDER BY number DESC LIMIT 1`
  return db.all(sql, projectId).map(readRow).map(receiptOf)[0] ?? undefined
}

/** Which receipts to list. */
export interface ReceiptFilter {
  projectId?: string | undefined
  /** The projects that the caller may see; null: all. */
  projects?: readonly string[] | null | undefined
  /** Only receipts that were made from this time on, as ISO text. */
  since?: string | undefined
  /** The id of a deployment: only receipts after its own. */
  after?: string | undefined
  limit: number
}

/** Lists receipts in the order in which they were owed. */
export function listReceipts(db: Reader, { projectId, projects, since, after, limit }: ReceiptFilter): StoredReceipt[] {
  const sql = `SELECT * FROM receipts WHERE content IS NOT NULL
    AND (?1 IS NULL OR projectId = ?1) AND (?2 IS NULL OR projectId IN (SELECT value FROM json_each(?2)))
    AND (?3 IS NULL OR issuedAt >= ?3)
    AND (?4 IS NULL OR position > (SELECT position FROM receipts WHERE deployId = ?4))
    ORDER BY position LIMIT ?5`
  const scope = projects == null ? null : JSON.stringify(projects)
  const found = db.all(sql, projectId ?? null, scope, since ?? null, after ?? null, limit)
  return found.map(readRow).flatMap(row => receiptOf(row) ?? [])
}

/** Removes the receipts of a project, with its records. */
export function deleteReceiptsOf(tx: Transaction, projectId: string): void {
  tx.run('DELETE FROM receipts WHERE projectId = ?', projectId)
}
