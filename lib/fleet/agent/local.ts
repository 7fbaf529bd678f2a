/* What an agent needs of the svc that it is part of. `server/agent.ts` provides it. */
import type { ExactWindow } from '../../model/rollback-plan.js'
import type { Actor } from '../../model/audit.js'
import type { DeploymentRow } from '../../model/deployment.js'
import type { PolicyChanges } from '../../model/policy.js'

/** The end of a deployment on the node, when it comes. */
export interface LocalRun {
  deployId: string
  finished: Promise<DeploymentRow>
}

/** Scripts that came with an archive. */
export interface OfferedToNode {
  origin: 'upload' | 'source deployment'
  preDeploy?: string | undefined
  postDeploy?: string | undefined
  postDeployAsync?: boolean | undefined
}

/** The deployments of the node. */
export interface LocalDeployer {
  deploy(
    received: {
      path: string
      bytes: number
      sha256: string
      startedAt: string
      endedAt: string
      discard(): Promise<void>
    },
    request: OfferedToNode & {
      projectId: string
      deployId: string
      env: Record<string, string>
      message: string | null
      actor: Actor
    }
  ): Promise<LocalRun>
  undo(
    projectId: string,
    request: { deployId: string; since: string | undefined; takesBack: true; message: string | null; actor: Actor }
  ): Promise<LocalRun>
  preflight(request: { projectId: string; archivePath: string; offered: OfferedToNode }): Promise<void>
  exactWindow(projectId: string): ExactWindow
  /** Yields the output of a deployment until it has finished. */
  follow(deployId: string, options: { signal: AbortSignal }): AsyncIterable<unknown>
  readOutput(deployId: string, options: { maxBytes: number }): Promise<{ text: string }>
  /** Returns a record with what is not in the database yet. */
  current(row: DeploymentRow): DeploymentRow
  drift(request: { projectId: string; isFull: boolean; signal: AbortSignal }): Promise<{ count: number }>
  hasRunning(projectId: string): boolean
}

/** The fields of a project that a hub decides about. */
export interface AdoptedFields {
  name: string
  deployPath: string
  env: string
  policy: PolicyChanges
  [field: string]: unknown
}

/** The projects of the node. */
export interface LocalProjects {
  /** Makes a project of the hub one of the node, or brings it up to date. */
  adopt(id: string, fields: AdoptedFields, actor: Actor): Promise<unknown>
  remove(id: string, actor: Actor): Promise<void>
}

/** The variables of the projects of the node. */
export interface LocalVariables {
  replace(
    projectId: string,
    given: ReadonlyArray<{ name: string; value: string; secret: boolean }>,
    actor: Actor
  ): Promise<unknown>
  open(projectId: string): Promise<ReadonlyArray<{ name: string; value: string; secret: boolean }>>
}

/** The hub in records and audit entries of the node. */
export const hubActor: Actor = { name: 'hub', ip: null }
