import type { Operations } from './operation.js'
import { agentOperations } from './operations/agents.js'
import { accessOperations } from './operations/access.js'
import { confirmOperations } from './operations/confirm.js'
import { deploymentOperations } from './operations/deployments.js'
import { fleetOperations } from './operations/fleet.js'
import { lockOperations } from './operations/locks.js'
import { logOperations } from './operations/logs.js'
import { planOperations } from './operations/plans.js'
import { projectOperations } from './operations/projects.js'
import { serverOperations } from './operations/server.js'
import { transferOperations } from './operations/transfer.js'
import { treeOperations } from './operations/trees.js'

/** The operations of all routes, keyed by method and path: `GET /api/projects`. */
export const operations: Operations = {
  ...accessOperations,
  ...projectOperations,
  ...deploymentOperations,
  ...lockOperations,
  ...planOperations,
  ...treeOperations,
  ...confirmOperations,
  ...logOperations,
  ...fleetOperations,
  ...serverOperations,
  ...transferOperations,
  ...agentOperations
}
