import type { StoredVariable } from '../../model/variable.js'
import type { Reader, Transaction } from '../database.js'

/** A project's variables by name. */
export function listVariables(db: Reader, projectId: string): StoredVariable[] {
  return db.all<Row>('SELECT * FROM variables WHERE projectId = ? ORDER BY name', projectId).map(decode)
}

/** The secrets of all projects, sealed. */
export function listSecrets(db: Reader): StoredVariable[] {
  return db.all<Row>('SELECT * FROM variables WHERE secret = 1 ORDER BY projectId, name').map(decode)
}

/** Writes a variable over the one of its name. */
export function putVariable(tx: Transaction, { projectId, name, value, secret, updatedAt }: StoredVariable): void {
  const sql = 'INSERT OR REPLACE INTO variables (projectId, name, value, secret, updatedAt) VALUES (?, ?, ?, ?, ?)'
  tx.run(sql, projectId, name, value, Number(secret), updatedAt)
}

/** Removes a variable. A project's variables go with the project by themselves. */
export function deleteVariable(tx: Transaction, projectId: string, name: string): void {
  tx.run('DELETE FROM variables WHERE projectId = ? AND name = ?', projectId, name)
}

type Row = Omit<StoredVariable, 'secret'> & { secret: number }

function decode(row: Row): StoredVariable {
  return { ...row, secret: row.secret !== 0 }
}
