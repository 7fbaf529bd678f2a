/*
 * Puts a release in place, and takes it back, with the deployments of the node. Their ids are chosen before, so that a
 * deployment is found again after a crash.
 */

import { type Clock, instantOf } from '../../base/clock.js'
import { Refusal } from '../../base/errors.js'
import { type DeploymentRow, failedStep } from '../../model/deployment.js'
import type { Duty, OfferedToNode } from '../../model/fleet-wire.js'
import type { OpenedVariable } from '../../model/variable.js'
import { fleetLimits } from '../../model/node.js'
import type { NodeAnswer } from '../../model/rollout.js'
import type { Reader } from '../../core/store/database.js'
import { findDeployment, liveDeployment, placements } from '../../core/store/tables/deployments.js'
import { findHubDeployment } from '../../core/store/tables/fleet.js'
import type { ExactWindow } from '../../model/plan.js'
import type { Actor } from '../../model/audit.js'
import type { PolicyChanges } from '../../model/policy.js'
import type { Release } from './releases.js'

/** The result of a swap or of a revert. */
export interface Swapped {
  answer: Extract<NodeAnswer, 'good' | 'failed' | 'stuck' | 'reverted'>
  error: string | null
  failedStep: string | null
  /** The end of the output. */
  output: string | null
}

export interface SwapNeeds {
  store: Reader
  deployer: LocalDeployer
  clock: Clock
}

/** Puts a release in place as the deployment `swapId`. A refusal means that nothing has begun. */
export async function swap(
  needs: SwapNeeds,
  { duty, swapId, release }: { duty: Duty; swapId: string; release: Release }
): Promise<Swapped> {
  const { document, archivePath } = release
  const at = instantOf(needs.clock)
  const { archiveBytes, archiveSha256 } = duty.release
  // The archive stays for another attempt; the deployment keeps a link to it.
  const received = { path: archivePath, bytes: archiveBytes, sha256: archiveSha256, startedAt: at, endedAt: at }
  const run = await needs.deployer.deploy(
    { ...received, discard: async () => {} },
    {
      projectId: duty.projectId,
      deployId: swapId,
      ...document.offered,
      env: document.clientEnv,
      message: document.message,
      sent: document.attested ?? null,
      isFromHub: true,
      actor: hubActor
    }
  )
  return swapResult(needs, await run.finished, duty.release.deployId)
}

/** A release on the node. */
export interface Placing {
  projectId: string
  /** The deployment that put it in place last, or tried to. */
  swapId: string
  /** The deployment of the hub. */
  releaseId: string
}

/**
 * Returns the deployments that put a release in place that is still there, newest first; none: other files are there. A
 * release that was stuck and tried again has several.
 */
export function placedBy(store: Reader, { projectId, swapId, releaseId }: Placing): string[] {
  const ids = placements(store, projectId).map(({ id }) => id)
  const other = ids.findIndex(id => id !== swapId && findHubDeployment(store, id)?.deployId !== releaseId)
  return other < 0 ? ids : ids.slice(0, other)
}

/** Undoes all deployments that put a release in place, as the deployment `undoId`. */
export async function revert(needs: SwapNeeds, { undoId, ...placing }: Placing & { undoId: string }): Promise<Swapped> {
  const { projectId, swapId } = placing
  const since = placedBy(needs.store, placing).at(-1)
  if (since === undefined) {
    const live = liveDeployment(needs.store, projectId)
    const who = live === undefined ? 'its record is gone' : `deployment ${live.id} was made on the node after it`
    return { ...nothing, answer: 'stuck', error: `Cannot undo deployment ${swapId}: ${who}` }
  }
  const run = await needs.deployer.undo(projectId, {
    deployId: undoId,
    since,
    takesBack: true,
    message: null,
    actor: hubActor
  })
  return revertResult(needs, await run.finished, placing)
}

/**
 * Returns the result of a swap whose deployment has finished. The tree in place counts, also if an earlier attempt has put
 * it there.
 */
export async function swapResult(needs: SwapNeeds, row: DeploymentRow, releaseId: string): Promise<Swapped> {
  refuseUnfinished(row)
  const output = await outputOf(needs, row)
  if (row.status === 'success') return { answer: 'good', error: null, failedStep: null, output }
  const { projectId, id: swapId } = row
  const isInPlace = placedBy(needs.store, { projectId, swapId, releaseId }).length > 0
  return { ...failureOf(row), answer: isInPlace ? 'stuck' : 'failed', output }
}

/** Returns the result of a revert whose deployment has finished. */
export async function revertResult(needs: SwapNeeds, row: DeploymentRow, placing: Placing): Promise<Swapped> {
  refuseUnfinished(row)
  const output = await outputOf(needs, row)
  if (placedBy(needs.store, placing).length === 0) return { answer: 'reverted', error: null, failedStep: null, output }
  return { ...failureOf(row), answer: 'stuck', output }
}

/**
 * Waits for the end of a deployment that an earlier process began. Returns null if there is no record: then nothing has
 * begun.
 */
export async function untilFinished(
  { store, deployer }: SwapNeeds,
  deployId: string,
  signal: AbortSignal
): Promise<DeploymentRow | null> {
  if (findDeployment(store, deployId) === undefined) return null
  for await (const _ of deployer.follow(deployId, { signal })) signal.throwIfAborted()
  const row = findDeployment(store, deployId)
  if (row === undefined) return null
  const current = deployer.current(row)
  refuseUnfinished(current)
  return current
}

/** Returns the deployment whose files were in place before another one; null: there was none. */
export function deploymentBefore(store: Reader, projectId: string, deployId: string): string | null {
  const all = placements(store, projectId)
  const at = all.findIndex(({ id }) => id === deployId)
  return at < 0 ? null : (all[at + 1]?.id ?? null)
}

/** A deployment that waits for its checks continues with the next start. */
function refuseUnfinished({ id, status }: DeploymentRow): void {
  if (status === 'success' || status === 'failed') return
  throw new Refusal('unavailable', 'shutting_down', `Deployment ${id} continues with the next start`)
}

const nothing = { error: null, failedStep: null, output: null }

function failureOf({ errorMessage, steps }: DeploymentRow): Pick<Swapped, 'error' | 'failedStep'> {
  const step = failedStep(steps)
  return { error: errorMessage ?? 'The deployment failed', failedStep: step?.name ?? null }
}

async function outputOf({ deployer }: SwapNeeds, { id }: DeploymentRow): Promise<string | null> {
  const read = await deployer.readOutput(id, { maxBytes: fleetLimits.outputBytes }).catch(() => null)
  return read?.text ?? null
}

/* What an agent needs of the svc that it is part of. `server/agent.ts` provides it. */

/** The end of a deployment on the node, when it comes. */
export interface LocalRun {
  deployId: string
  finished: Promise<DeploymentRow>
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
      /** The statement of the release and its signatures. */
      sent: { statement: string; signatures: string[] } | null
      isFromHub: true
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
  replace(projectId: string, given: readonly OpenedVariable[], actor: Actor): Promise<unknown>
  open(projectId: string): Promise<readonly OpenedVariable[]>
}

/** The hub in records and audit entries of the node. */
export const hubActor: Actor = { name: 'hub', ip: null }
