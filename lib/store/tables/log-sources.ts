import { logKinds, type LogSource } from '../../model/log-source.js'
import type { Reader } from '../database.js'
import { choice, number, text } from './columns.js'
import { tableOf } from './table.js'

const sources = tableOf<LogSource>('logSources', {
  id: text,
  projectId: text,
  label: text,
  filePath: text,
  kind: choice(logKinds),
  sortOrder: number,
  createdAt: text,
  updatedAt: text
})

/** Adds a source. */
export const insertLogSource = sources.insert

/** Writes the fields that are present; returns false if there is no such source. */
export const updateLogSource = sources.update

/** Removes a source; returns false if there is none. A project's sources are removed together with the project. */
export const deleteLogSource = sources.delete

/** Returns one source by its id. */
export const findLogSource = sources.find

/** Returns a project's sources, sorted by sortOrder, then in the order in which they were added. */
export function listLogSources(db: Reader, projectId: string): LogSource[] {
  const sql = 'SELECT * FROM logSources WHERE projectId = ? ORDER BY sortOrder, position'
  return db.all(sql, projectId).map(sources.read)
}

/** Returns the sources of all projects; those of each project in its order. */
export function listAllLogSources(db: Reader): LogSource[] {
  return db.all('SELECT * FROM logSources ORDER BY projectId, sortOrder, position').map(sources.read)
}
