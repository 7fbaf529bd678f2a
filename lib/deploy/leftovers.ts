import { readdir } from 'node:fs/promises'
import type { Reader } from '../store/database.js'
import { isAnyRunning } from '../store/tables/projects.js'
import { listScriptProcesses } from '../store/tables/script-processes.js'

/**
 * Looks whether a server that did not come to its end has left what a start puts right (recovery.ts): a journal in
 * `deployments`, a deployment that goes on by its record, or a script that did. Looks at the directory at once, and at the store
 * when it is there.
 */
export function lookForLeftovers(deployments: string): (store: Reader) => Promise<boolean> {
  const names = readdir(deployments).catch(() => [])
  return async store => isAnyRunning(store) || listScriptProcesses(store).length > 0 || (await names).some(name => name.endsWith('.undo'))
}
