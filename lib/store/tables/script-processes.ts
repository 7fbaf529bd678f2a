import type { ScriptProcess } from '../../model/deployment.js'
import type { Reader, Transaction } from '../database.js'

/** Records the process group of a script that has begun. */
export function insertScriptProcess(tx: Transaction, { deployId, step, pid, startedAt, bootId, home }: ScriptProcess): void {
  const sql = 'INSERT OR REPLACE INTO scriptProcesses (deployId, step, pid, startedAt, bootId, home) VALUES (?, ?, ?, ?, ?, ?)'
  tx.run(sql, deployId, step, pid, startedAt, bootId, home)
}

/** Forgets that of a script which is over, or no concern of svc any more. */
export function deleteScriptProcess(tx: Transaction, { deployId, step }: Pick<ScriptProcess, 'deployId' | 'step'>): void {
  tx.run('DELETE FROM scriptProcesses WHERE deployId = ? AND step = ?', deployId, step)
}

/** Those of all scripts that run, as far as svc knows. */
export function listScriptProcesses(db: Reader): ScriptProcess[] {
  return db.all('SELECT * FROM scriptProcesses ORDER BY deployId, step')
}
