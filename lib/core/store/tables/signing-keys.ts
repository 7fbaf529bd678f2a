/* Keys that sign releases, and the statements of releases with their signatures. */
import { keyKinds, type Attestation, type SigningKey } from '../../../model/statement.js'
import type { DeploymentRow } from '../../../model/deployment.js'
import type { Reader, Transaction } from '../database.js'
import { readDeployment } from './deployments.js'
import { choice, nullable, number, rowReader, tableOf, text, texts, valueReader } from './table.js'

const signingKeys = tableOf<SigningKey>('signingKeys', {
  id: text,
  kind: choice(keyKinds),
  public: text,
  fingerprint: text,
  name: text,
  projectIds: nullable(texts),
  notBefore: nullable(text),
  notAfter: nullable(text),
  revokedAt: nullable(text),
  createdAt: text
})

export const insertSigningKey = signingKeys.insert
/** Writes the fields that are present; returns false if there is no such key. */
export const updateSigningKey = signingKeys.update
export const findSigningKey = signingKeys.find

/** Returns all keys, in the order of their names. */
export function listSigningKeys(db: Reader): SigningKey[] {
  return db.all('SELECT * FROM signingKeys ORDER BY name COLLATE NOCASE, id').map(signingKeys.read)
}

/**
 * Returns the deployments since a time that a key has signed, newest first; at most `limit`. If the clock was set back, a
 * release was accepted later than its record says.
 */
export function deploymentsSignedBy(
  db: Reader,
  { id, since, limit }: { id: string; since: string | null; limit: number }
): DeploymentRow[] {
  const sql = `SELECT * FROM deployments WHERE signedBy <> '[]' AND (startTime >= ?
      OR id IN (SELECT deployId FROM attestations WHERE acceptedAt >= ?))
    AND EXISTS (SELECT 1 FROM json_each(signedBy) WHERE json_extract(value, '$.key') = ?)
    ORDER BY orderedAt DESC, position DESC LIMIT ?`
  return db.all(sql, since ?? '', since ?? '', id, limit).map(readDeployment)
}

const readAttestation = rowReader<Attestation>('attestations', {
  deployId: text,
  statement: text,
  signatures: texts,
  acceptedAt: text
})

/** Keeps the statement of a deployment, and its signatures. */
export function putAttestation(tx: Transaction, { deployId, statement, signatures, acceptedAt }: Attestation): void {
  const sql = 'INSERT OR REPLACE INTO attestations (deployId, statement, signatures, acceptedAt) VALUES (?, ?, ?, ?)'
  tx.run(sql, deployId, statement, JSON.stringify(signatures), acceptedAt)
}

/** Returns the statement of a deployment and its signatures; undefined: there is no statement. */
export function findAttestation(db: Reader, deployId: string): Attestation | undefined {
  return db.all('SELECT * FROM attestations WHERE deployId = ?', deployId).map(readAttestation)[0]
}

const readTime = valueReader('attestations.acceptedAt', text)

/** Returns when a statement was accepted first for a project; undefined: it never was. */
export function firstAccepted(db: Reader, projectId: string, statement: string): string | undefined {
  const sql = `SELECT min(acceptedAt) FROM attestations WHERE statement = ?
    AND deployId IN (SELECT id FROM deployments WHERE projectId = ?)`
  return db.all(sql, statement, projectId).flatMap(row => (Object.values(row)[0] === null ? [] : [readTime(row)]))[0]
}

const readSequence = valueReader('attestations.sequence', nullable(number))

/**
 * Notes that the files of a deployment are in place: releases of its project that were signed earlier are replays. Does nothing
 * if this server has not verified its signatures. What becomes of its record later changes nothing.
 */
export function countSequence(tx: Transaction, deployId: string): void {
  const sql = `UPDATE attestations SET sequence = (SELECT json_extract(d.statement, '$.sequence') FROM deployments d
    WHERE d.id = deployId AND d.signedBy <> '[]') WHERE deployId = ? AND sequence IS NULL`
  tx.run(sql, deployId)
}

/** Takes `countSequence` back: the earlier files of the project are in place again. */
export function uncountSequence(tx: Transaction, deployId: string): void {
  tx.run('UPDATE attestations SET sequence = NULL WHERE deployId = ?', deployId)
}

/** Whether the sequence of a deployment counts. */
export function countsSequence(db: Reader, deployId: string): boolean {
  return db.all('SELECT 1 FROM attestations WHERE deployId = ? AND sequence IS NOT NULL', deployId).length > 0
}

/** The sequences that count, by project: of releases that have a record, and of those that a restore has taken away. */
const sequences = `SELECT d.projectId AS projectId, a.sequence AS sequence FROM attestations a
    JOIN deployments d ON d.id = a.deployId WHERE a.sequence IS NOT NULL
  UNION ALL SELECT projectId, sequence FROM lostSequences`

/** Returns the highest sequence of a release that this server has verified and put in place; null: there is none. */
export function highestSequence(db: Reader, projectId: string): number | null {
  return db.all(`SELECT max(sequence) FROM (${sequences}) WHERE projectId = ?`, projectId).map(readSequence)[0] ?? null
}

const readHighest = rowReader<{ projectId: string; sequence: number }>('attestations', {
  projectId: text,
  sequence: number
})

/** Returns `highestSequence` of each project that has one. */
export function highestSequences(db: Reader): Record<string, number> {
  return Object.fromEntries(
    db
      .all(`SELECT projectId, max(sequence) AS sequence FROM (${sequences}) GROUP BY projectId`)
      .map(readHighest)
      .map(({ projectId, sequence }) => [projectId, sequence])
  )
}

/** Notes that a project, if there is one, had a release of this sequence whose record is gone. */
export function raiseSequence(tx: Transaction, projectId: string, sequence: number): void {
  const sql = `INSERT INTO lostSequences (projectId, sequence) SELECT id, ? FROM projects WHERE id = ?
    ON CONFLICT (projectId) DO UPDATE SET sequence = max(sequence, excluded.sequence)`
  tx.run(sql, sequence, projectId)
}
