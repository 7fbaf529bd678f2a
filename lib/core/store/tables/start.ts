/* What a start asks before it listens. The files of the tables themselves are loaded after that (test/bench/start). */
import type { Reader } from '../database.js'

/** Returns whether the record of any deployment is queued or running. */
export function isAnyRunning(db: Reader): boolean {
  return db.get(`SELECT 1 FROM projects WHERE status = 'running' LIMIT 1`) !== undefined
}

/** Returns whether a script is recorded that has not finished. */
export function isAnyScriptRecorded(db: Reader): boolean {
  return db.get('SELECT 1 FROM scriptProcesses LIMIT 1') !== undefined
}

/** Returns the text of a setting; undefined: it was never written. */
export function readSettingText(db: Reader, key: string): string | undefined {
  const value = db.get('SELECT value FROM settings WHERE key = ?', key)?.['value']
  return typeof value === 'string' ? value : undefined
}
