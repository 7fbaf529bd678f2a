import type { LogSource } from '../../model/log-source.js'
import type { Reader, Transaction } from '../database.js'
import { columnsOf } from './columns.js'

const columns = columnsOf<LogSource>('logSources', {
  id: 'plain',
  projectId: 'plain',
  label: 'plain',
  filePath: 'plain',
  kind: 'plain',
  sortOrder: 'plain',
  createdAt: 'plain',
  updatedAt: 'plain'
})

/** Adds a source. */
export function insertLogSource(tx: Transaction, source: LogSource): void {
  columns.insert(tx, source)
}

/** Writes the fields that are present; gives false where there is no such source. */
export function updateLogSource(tx: Transaction, id: string, patch: Partial<LogSource>): boolean {
  return columns.update(tx, id, patch) > 0
}

/** Removes a source; gives false where there is none. A project's sources go with the project by themselves. */
export function deleteLogSource(tx: Transaction, id: string): boolean {
  return tx.run('DELETE FROM logSources WHERE id = ?', id) > 0
}

/** One source by its id. */
export function findLogSource(db: Reader, id: string): LogSource | undefined {
  const row = db.get<LogSource>('SELECT * FROM logSources WHERE id = ?', id)
  return row === undefined ? undefined : columns.decode(row)
}

/** A project's sources by sortOrder, then in the order in which they were added. */
export function listLogSources(db: Reader, projectId: string): LogSource[] {
  const rows = db.all<LogSource>('SELECT * FROM logSources WHERE projectId = ? ORDER BY sortOrder, position', projectId)
  return rows.map(row => columns.decode(row))
}

/** Those of all projects, each project's in its order. */
export function listAllLogSources(db: Reader): LogSource[] {
  return db.all<LogSource>('SELECT * FROM logSources ORDER BY projectId, sortOrder, position').map(row => columns.decode(row))
}
