import { scriptSteps, type ScriptProcess } from '../../model/deployment.js'
import type { Reader, Transaction } from '../database.js'
import { choice, number, rowReader, text } from './columns.js'

const readProcess = rowReader<ScriptProcess>('scriptProcesses', {
  deployId: text,
  step: choice(scriptSteps),
  pid: number,
  startedAt: text,
  bootId: text,
  home: text
})

/** Records the process group of a script that has started. */
export function insertScriptProcess(
  tx: Transaction,
  { deployId, step, pid, startedAt, bootId, home }: ScriptProcess
): void {
  const sql =
    'INSERT OR REPLACE INTO scriptProcesses (deployId, step, pid, startedAt, bootId, home) VALUES (?, ?, ?, ?, ?, ?)'
  tx.run(sql, deployId, step, pid, startedAt, bootId, home)
}

/** Removes the record of a script that has finished, or that svc no longer tracks. */
export function deleteScriptProcess(
  tx: Transaction,
  { deployId, step }: Pick<ScriptProcess, 'deployId' | 'step'>
): void {
  tx.run('DELETE FROM scriptProcesses WHERE deployId = ? AND step = ?', deployId, step)
}

/** Returns the recorded process groups of all scripts that have not finished. */
export function listScriptProcesses(db: Reader): ScriptProcess[] {
  return db.all('SELECT * FROM scriptProcesses ORDER BY deployId, step').map(readProcess)
}
