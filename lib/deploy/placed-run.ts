/*
 * The deployment of a project that is placed on nodes: the server that has the archive rolls it out, and puts nothing in
 * place itself. Its steps are `store`, `rollout` and `cleanup`.
 */
import { treeOfArchive } from '../archive/archive-tree.js'
import { Refusal } from '../base/errors.js'
import { countOf } from '../base/text.js'
import { extractionLimits } from '../install/unpack/extract.js'
import type { Actor } from '../model/audit.js'
import type { DeploymentRow } from '../model/deployment.js'
import { policyOf } from '../model/policy.js'
import type { Project } from '../model/project.js'
import type { RolloutPolicy } from '../model/rollout.js'
import { isPlaced } from '../store/tables/fleet.js'
import type { Reader } from '../store/database.js'
import { rolloutOfDeployment } from '../store/tables/rollouts.js'
import { StepFailure, Suspension } from './failure.js'
import type { DeployFiles } from './files.js'
import type { RollEnd } from '../model/node-release.js'
import type { DeployNeeds } from './needs.js'
import { recordProgress } from './record.js'
import { permittedScripts } from './scripts/scripts.js'
import { createSteps } from './steps.js'
import type { Planned } from './turn.js'

/** Dependencies of the deployment of a placed project. */
export interface PlacedRunNeeds extends Pick<DeployNeeds, 'store' | 'clock' | 'settings' | 'fleet'> {
  files: DeployFiles
}

/** Rolls a deployment out, or continues its rollout. Throws if it does not end with the release on all nodes. */
export async function runPlaced(needs: PlacedRunNeeds, planned: Planned, project: Project): Promise<void> {
  const { store, clock, fleet } = needs
  const { row, live } = planned
  if (fleet === undefined) throw new Error('This server has no fleet')
  const steps = createSteps({
    clock,
    output: live.output,
    signal: live.signal,
    done: row.steps,
    async save(steps) {
      const { treeSha256, fileCount } = row
      await store.write(tx => recordProgress(tx, row.id, { steps, treeSha256, fileCount }))
    }
  })
  row.steps = steps.all()
  let isSuspended = false
  try {
    await steps.run('rollout', async () => {
      const say = (line: string): void => live.output.say(line)
      const isBegun = rolloutOfDeployment(store, row.id) !== undefined
      const end = await untilStopped(needs, planned, async signal => {
        if (isBegun) return fleet.follow(row.id, { say, signal })
        return fleet.begin(await releaseOf(needs, planned, { project, signal }), { say, signal })
      })
      if (end.outcome !== 'done') throw new StepFailure(end.sentence)
      return end.sentence
    })
  } catch (error) {
    isSuspended = error instanceof Suspension
    throw error
  } finally {
    if (isSuspended) await planned.discardUpload()
    else await steps.run('cleanup', async () => planned.discardUpload().then(() => 'removed the temporary zip'))
  }
}

/** Follows a rollout until the deployment is cancelled, which halts it, or the server stops. The next start continues. */
async function untilStopped(
  { fleet }: PlacedRunNeeds,
  { row, live }: Planned,
  work: (signal: AbortSignal) => Promise<RollEnd>
): Promise<RollEnd> {
  const stop = new AbortController()
  const abort = (): void => stop.abort()
  const signals = [live.suspending, live.signal]
  for (const signal of signals) signal.addEventListener('abort', abort)
  try {
    if (signals.some(({ aborted }) => aborted)) abort()
    return await work(stop.signal)
  } catch (error) {
    if (!stop.signal.aborted) throw error
    if (live.suspending.aborted) throw new Suspension()
    await fleet?.halt(row.id, (live.signal.reason as Error).message)
    throw live.signal.reason
  } finally {
    for (const signal of signals) signal.removeEventListener('abort', abort)
  }
}

/** Reads the archive, and returns what the nodes of the project get. */
async function releaseOf(
  { files, settings }: PlacedRunNeeds,
  { row, live, offered, env, rollout }: Planned,
  { project, signal }: { project: Project; signal: AbortSignal }
) {
  const tree = await treeOfArchive(files.archive(row.id), extractionLimits(settings), signal)
  row.treeSha256 = tree.treeSha256
  row.fileCount = tree.fileCount
  const permitted = permittedScripts(project, settings.flag('allow_client_scripts'), offered)
  for (const step of permitted.dropped)
    live.output.say(`→ skipping the ${step} script of ${row.rollbackOf}: client scripts have been disabled since`)
  live.output.say(`→ read the archive: ${countOf(tree.fileCount, 'file')}`)
  const policy: RolloutPolicy = { ...policyOf(project).rollout, ...rollout }
  return {
    projectId: project.id,
    deployId: row.id,
    treeSha256: tree.treeSha256,
    archiveSha256: row.archiveSha256 as string,
    archiveBytes: row.archiveBytes as number,
    policy,
    offer: { offered: permitted.offered, clientEnv: { ...env } },
    rollbackOf: row.rollbackOf,
    actor: actorOf(row)
  }
}

/** Returns who started a deployment. */
export function actorOf({ actor, tokenId, actorIp, claimedIp }: DeploymentRow): Actor {
  const name = actor ?? 'system'
  const token = tokenId === null ? undefined : { id: tokenId, name: name.replace(/^token:/, '') }
  return { name, ip: actorIp, claimedIp, token }
}

/** Refuses (409 `project_is_placed`) what the server does only to its own targets. `doing` is like "undo". */
export function refusePlaced(db: Reader, { id, name }: Pick<Project, 'id' | 'name'>, doing: string): void {
  if (!isPlaced(db, id)) return
  const advice = 'Use "svc rollout revert", or the page of a node'
  const sentence = `Cannot ${doing} "${name}" here: its files are on the nodes of the fleet. ${advice}`
  throw new Refusal('conflict', 'project_is_placed', sentence)
}

/**
 * Refuses (409 `not_placed`) to deploy a project without nodes on a hub of a cluster: another machine may lead tomorrow, so a
 * target is always that of a node.
 */
export function refuseUnplaced(
  { store, copies }: Pick<DeployNeeds, 'store' | 'copies'>,
  { id, name }: Pick<Project, 'id' | 'name'>
): void {
  if (copies === undefined || isPlaced(store, id)) return
  const sentence = `The project "${name}" is on no node of the cluster. Place it on one first: svc fleet place`
  throw new Refusal('conflict', 'not_placed', sentence)
}
