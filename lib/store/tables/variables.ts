import type { StoredVariable } from '../../model/variable.js'
import type { Reader, Transaction } from '../database.js'
import { flag, rowReader, text } from './columns.js'

const readVariable = rowReader<StoredVariable>('variables', {
  projectId: text,
  name: text,
  value: text,
  secret: flag,
  updatedAt: text
})

/** Returns a project's variables, sorted by name. */
export function listVariables(db: Reader, projectId: string): StoredVariable[] {
  return db.all('SELECT * FROM variables WHERE projectId = ? ORDER BY name', projectId).map(readVariable)
}

/** Returns the encrypted secrets of all projects. */
export function listSecrets(db: Reader): StoredVariable[] {
  return db.all('SELECT * FROM variables WHERE secret = 1 ORDER BY projectId, name').map(readVariable)
}

/** Writes a variable, replacing the one with its name. */
export function putVariable(tx: Transaction, { projectId, name, value, secret, updatedAt }: StoredVariable): void {
  const sql = 'INSERT OR REPLACE INTO variables (projectId, name, value, secret, updatedAt) VALUES (?, ?, ?, ?, ?)'
  tx.run(sql, projectId, name, value, Number(secret), updatedAt)
}

/** Removes a variable. A project's variables are removed together with the project. */
export function deleteVariable(tx: Transaction, projectId: string, name: string): void {
  tx.run('DELETE FROM variables WHERE projectId = ? AND name = ?', projectId, name)
}
