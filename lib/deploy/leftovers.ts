import { readdir } from 'node:fs/promises'
import type { Reader } from '../store/database.js'
import { isAnyRunning } from '../store/tables/projects.js'
import { listScriptProcesses } from '../store/tables/deployments.js'

/**
 * Checks whether a server that did not stop cleanly left something for recovery.ts: an undo journal in `deployments`, a
 * deployment whose record says that it is running, or a recorded script process. Reads the directory at once. The
 * returned function checks the store as soon as it is open.
 */
export function lookForLeftovers(deployments: string): (store: Reader) => Promise<boolean> {
  const names = readdir(deployments).catch(() => [])
  return async store =>
    isAnyRunning(store) || listScriptProcesses(store).length > 0 || (await names).some(name => name.endsWith('.undo'))
}
