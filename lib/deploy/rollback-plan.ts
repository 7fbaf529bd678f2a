/* What a rollback or an undo would do. The comparison is that of a plan; nothing is changed. */
import { existsSync } from 'node:fs'
import { writeTree } from '../archive/tree-wire.js'
import type { TimedEntry } from '../archive/tree.js'
import { notFound, Refusal } from '../base/refusal.js'
import type { Compared } from '../install/compare.js'
import { readManifest } from '../install/manifest.js'
import type { Removes } from '../install/ownership.js'
import type { DeploymentRow } from '../model/deployment.js'
import { planKinds, type Baseline, type PlanCounts } from '../model/plan.js'
import { policyOf } from '../model/policy.js'
import type { Project } from '../model/project.js'
import type { RollbackMode, RollbackPlan } from '../model/rollback.js'
import { createTreeDigest } from '../model/tree.js'
import { fileType, linkMode, linkType } from '../shared/tree-text.js'
import { findDeployment } from '../store/tables/deployments.js'
import { placementsAfter } from '../store/tables/placements.js'
import { findProject } from '../store/tables/projects.js'
import type { Comparer } from './comparer.js'
import type { Ends } from './ends.js'
import { bytesOf, exactState, type ExactNeeds } from './exact-change.js'
import { goalOfUndo, type Goal } from './exact.js'
import type { EarlierState } from './exact-fold.js'
import { refuseLocked } from './locks.js'
import type { DeployNeeds } from './needs.js'
import { describeLive } from './plan.js'
import { noArchive, refuseRollback } from './rollback.js'
import { refuseUnlessFinal } from './status.js'

/** A request for the plan of a rollback or of an undo. */
export interface RollbackPlanRequest {
  /** Undefined: as the policy of the project says. */
  mode?: RollbackMode | undefined
  force?: boolean | undefined
  /** Maximum number of paths listed of each kind. */
  listed: number
  signal: AbortSignal
}

/** Makes plans of rollbacks. Refuses: 404, 409 `plan_busy`, 409 `changed_meanwhile`, 503. */
export interface RollbackPlans {
  ofRollback(deployId: string, request: RollbackPlanRequest): Promise<RollbackPlan>
  ofUndo(projectId: string, request: RollbackPlanRequest): Promise<RollbackPlan>
}

/** Dependencies of `createRollbackPlans`. */
export interface RollbackPlanNeeds extends ExactNeeds, Pick<DeployNeeds, 'store' | 'clock' | 'settings'> {
  comparer: Comparer
  ends: Pick<Ends, 'current'>
}

/** Creates the plans of rollbacks. */
export function createRollbackPlans(needs: RollbackPlanNeeds): RollbackPlans {
  const { store, files, comparer } = needs

  function requireProject(projectId: string): Project {
    const project = findProject(store, projectId)
    if (project === undefined) throw notFound('Project', projectId)
    return project
  }

  async function exactPlan(project: Project, goalOf: () => Goal, request: RollbackPlanRequest): Promise<RollbackPlan> {
    const given: Given = { mode: 'exact', to: null, over: 0 }
    return orProblem(given, async () => {
      refuseLocked(store, project, needs.clock.now())
      const goal = goalOf()
      given.to = goal.to === null ? null : (findDeployment(store, goal.to) ?? null)
      const state = await exactState(needs, project, goal)
      given.over = state.way.undone.length
      const removes: Removes = { kind: 'listed', paths: bytesOf(state.removed) }
      const { listed, signal, force = false } = request
      const tree = treeOf(state.wanted.flatMap(timedOf))
      const compared = await comparer.compare(project, {
        tree,
        listed,
        removes,
        takesEdited: force,
        isExact: true,
        signal
      })
      return answerOf(given, { ...compared, loses: losesOf(state) })
    })
  }

  async function overlayPlan(project: Project, source: DeploymentRow, request: RollbackPlanRequest) {
    const over = source.placed === null ? 0 : placementsAfter(store, project.id, source.placed).length
    const given: Given = { mode: 'overlay', to: source, over }
    return orProblem(given, async () => {
      refuseLocked(store, project, needs.clock.now())
      refuseRollback(source)
      if (!existsSync(files.archive(source.id))) throw noArchive(source.id)
      const entries: TimedEntry[] = []
      for await (const file of manifestOf(source)) entries.push(...timedOf(file))
      const { listed, signal } = request
      const compared = await comparer.compare(project, { tree: treeOf(entries), listed, isExact: true, signal })
      return answerOf(given, { ...compared, loses: [] })
    })
  }

  function manifestOf({ id, fileCount }: DeploymentRow): ReturnType<typeof readManifest> {
    if (existsSync(files.manifest(id))) return readManifest(files.manifest(id), fileCount ?? 0)
    const sentence = `Deployment ${id} has no file list, so it is not known what a rollback to it would change`
    throw new Refusal('conflict', 'no_manifest', sentence)
  }

  return {
    async ofRollback(deployId, request) {
      const recorded = findDeployment(store, deployId)
      if (recorded === undefined) throw notFound('Deployment', deployId)
      const source = needs.ends.current(recorded)
      const project = requireProject(source.projectId)
      if ((request.mode ?? policyOf(project).rollback) === 'overlay') return overlayPlan(project, source, request)
      return exactPlan(
        project,
        () => {
          refuseUnlessFinal(source, 'roll back to')
          return { to: deployId, undoOf: null }
        },
        request
      )
    },
    async ofUndo(projectId, request) {
      const project = requireProject(projectId)
      return exactPlan(project, () => goalOfUndo(store, project), request)
    }
  }
}

/** What a plan says about its goal. */
interface Given {
  mode: RollbackMode
  to: DeploymentRow | null
  over: number
}

/** A comparison that is to be tried again is an error; every other refusal is an answer. */
const passing = new Set(['plan_busy', 'changed_meanwhile'])

async function orProblem(given: Given, work: () => Promise<RollbackPlan>): Promise<RollbackPlan> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof Refusal) || error.kind === 'unavailable' || passing.has(error.code)) throw error
    const { code, message } = error
    const bytes = { changed: 0, extracted: 0, diskNeeded: 0, diskFree: null }
    const lists = { added: [], changed: [], timeOnly: [], unchanged: [], kept: [], pruned: [] }
    const paths = { ...lists, drifted: [], conflicts: [], truncated: false }
    const counts = Object.fromEntries(planKinds.map(kind => [kind, 0])) as PlanCounts
    const nothing = { counts, paths, bytes, checks: [], partial: false, baseline: 'none', loses: [] } as const
    return { success: true, ...headOf(given), ...nothing, checks: [], loses: [], problem: { code, message } }
  }
}

function headOf({ mode, to, over }: Given): Pick<RollbackPlan, 'mode' | 'to' | 'over'> {
  return { mode, to: to === null ? null : describeLive(to), over }
}

function answerOf(
  given: Given,
  { baseline, compared, loses }: { baseline: Baseline; compared: Compared; loses: RollbackPlan['loses'] }
): RollbackPlan {
  const { counts, paths, bytes, checks, expected } = compared
  const failed = checks.find(({ ok }) => !ok)
  const [conflict] = paths.conflicts
  const reason = failed?.code === undefined ? conflict : { code: failed.code, message: failed.message ?? '' }
  const problem = reason === undefined ? null : { code: reason.code, message: reason.message }
  const findings = { counts, paths, bytes, checks, loses, problem }
  return { success: true, ...headOf(given), partial: expected === null, baseline, ...findings }
}

const typeBits = 0o170000
const permissionBits = 0o777
/** A tree cannot contain a file without permissions. */
const leastPermissions = 0o600

/** Returns the entry of a tree for a file or a link; nothing for a directory. */
function timedOf(file: { path: string; mode: number; size: number; sha256: string; mtimeMs?: number }): TimedEntry[] {
  const type = file.mode & typeBits
  if (type !== fileType && type !== linkType) return []
  const mode = type === linkType ? linkMode : fileType | (file.mode & permissionBits || leastPermissions)
  const { path, size, sha256, mtimeMs = 0 } = file
  return [{ path, mode, size, sha256, mtimeMs: Math.floor(mtimeMs) }]
}

function treeOf(entries: readonly TimedEntry[]): Uint8Array {
  const digest = createTreeDigest()
  for (const entry of entries) digest.add(entry)
  return Buffer.from([...writeTree(entries, digest.end())].join(''))
}

/** A directory that is made again gets the time of that moment. */
function losesOf({ wanted }: EarlierState): RollbackPlan['loses'] {
  const directories = wanted.filter(({ sources }) => sources.length === 0)
  return directories.map(({ path }) => ({ path, what: ['time'] }))
}
