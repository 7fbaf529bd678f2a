import type { Operations } from './operation.js'
import { accessOperations } from './operations/access.js'
import { deploymentOperations } from './operations/deployments.js'
import { logOperations } from './operations/logs.js'
import { projectOperations } from './operations/projects.js'
import { serverOperations } from './operations/server.js'
import { transferOperations } from './operations/transfer.js'

/** What the description says of each route, by method and path. */
export const operations: Operations = {
  ...accessOperations,
  ...projectOperations,
  ...deploymentOperations,
  ...logOperations,
  ...serverOperations,
  ...transferOperations
}
