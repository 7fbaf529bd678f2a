/*
 * The database of the agent of a server that becomes a hub: the projects of the server with their variables and locks, and the
 * records of their deployments under the same ids. So undo, verify and exact rollbacks of the agent know the targets as the
 * server did. Tokens, sessions, webhooks and the audit log stay with the hub.
 */
import { openStore } from '../../store/durable-store.js'
import type { Reader, Row, Transaction, Value } from '../../store/database.js'
import { insertHubDeployment } from '../../store/tables/duties.js'

/** Tables that the agent takes over, in the order of their references. Triggers fill the others. */
const takenTables = [
  'categories',
  'tags',
  'projects',
  'projectTags',
  'variables',
  'locks',
  'deployments',
  'scriptProcesses',
  'logSources'
] as const
/** Settings that concern the server that its users talk to. */
const settingsOfHub = /^(webhook|global_deploy_token|metrics_token|allowed_|trusted_|checkpoint_|token_)/
const rowsPerWrite = 500

/** Creates svc.db in `directory` from the database of the server. */
export async function createNodeDatabase(directory: string, from: Reader): Promise<void> {
  const store = await openStore({ directory })
  try {
    for (const table of takenTables) {
      const rows = from.all(`SELECT * FROM ${table}`)
      for (let at = 0; at < rows.length; at += rowsPerWrite) {
        await store.write(tx => rows.slice(at, at + rowsPerWrite).forEach(row => insertRow(tx, table, row)))
      }
    }
    const settings = from.all('SELECT key, value FROM settings').filter(({ key }) => !settingsOfHub.test(String(key)))
    await store.write(tx => settings.forEach(row => insertRow(tx, 'settings', row)))
    // The hub made every deployment so far, so none of them is drift.
    await store.write(tx => {
      for (const { id, projectId } of from.all('SELECT id, projectId FROM deployments')) {
        insertHubDeployment(tx, { id: String(id), projectId: String(projectId), deployId: String(id) })
      }
    })
  } finally {
    await store.close()
  }
}

/** Adds a row as it is in another database. Columns that triggers have already filled are replaced. */
export function insertRow(tx: Transaction, table: string, row: Row): void {
  const names = Object.keys(row)
  const values = names.map(name => row[name] as Value)
  tx.run(`INSERT OR REPLACE INTO ${table} (${names.join(', ')}) VALUES (${names.map(() => '?').join(', ')})`, ...values)
}
