import { Refusal } from '../../base/errors.js'
import type { Reader } from '../../store/database.js'
import { unfinishedDeployments } from '../../store/tables/deployments.js'

/**
 * Refuses (`deployment_running`) while a deployment has not finished, or its undo journal is among the files of the
 * deployments: the target could have the files of either release. The server that began it must end it.
 */
export function refuseUnfinished(store: Reader, files: readonly string[]): void {
  const [row] = unfinishedDeployments(store)
  const journal = files.find(name => name.endsWith('.undo'))
  if (row === undefined && journal === undefined) return
  const id = row?.id ?? (journal as string).slice(0, -'.undo'.length)
  const sentence = `Deployment ${id} has not finished. Start the server, let it finish, stop the server, and try again`
  throw new Refusal('conflict', 'deployment_running', sentence)
}
