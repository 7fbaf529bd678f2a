/*
 * The map of all routes: what each takes and answers. It is the declaration of the API: the document docs/openapi.json,
 * the clients and the table of routes (api/routes.ts) follow it.
 */
import type { AccessRoutes } from './access.js'
import type { AgentRoutes } from './agents.js'
import type { DecisionRoutes } from './confirm.js'
import type { DeploymentRoutes } from './deployments.js'
import type { FleetRoutes } from './fleet.js'
import type { LockRoutes } from './locks.js'
import type { LogRoutes } from './logs.js'
import type { PieceRoutes } from './pieces.js'
import type { PlanRoutes } from './plans.js'
import type { ProjectRoutes } from './projects.js'
import type { ServerRoutes } from './server.js'
import type { TransferRoutes } from './transfer.js'
import type { TreeRoutes } from './trees.js'

/** Every route by its method and path. */
export interface Routes
  extends AccessRoutes,
    AgentRoutes,
    DecisionRoutes,
    DeploymentRoutes,
    FleetRoutes,
    LockRoutes,
    LogRoutes,
    PieceRoutes,
    PlanRoutes,
    ProjectRoutes,
    ServerRoutes,
    TransferRoutes,
    TreeRoutes {}
