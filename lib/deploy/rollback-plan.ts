/* What a rollback or an undo would do (model/plan.ts). */

import { isWaitingToBegin } from '../base/shared/api.js'
import { entriesOfArchive } from '../core/archive/archive-tree.js'
import { openKept } from '../core/archive/pack-set.js'
import { writeTree } from '../core/archive/tree-wire.js'
import type { TimedEntry } from '../core/archive/tree.js'
import { notFound, Refusal } from '../base/errors.js'
import { extractionLimits } from '../core/install/unpack/extract.js'
import { readManifest } from '../core/install/manifest.js'
import type { Ownership, Removes } from '../core/install/ownership.js'
import type { DeploymentRow } from '../model/deployment.js'
import { policyOf } from '../model/policy.js'
import type { Project } from '../model/project.js'
import type { RollbackPlan } from '../model/plan.js'
import { createTreeDigest } from '../model/manifest.js'
import { fileType, linkMode } from '../base/shared/tree-text.js'
import { findDeployment, placeDeployment, setBeforeFrom } from '../core/store/tables/deployments.js'
import { findQueuedRelease } from '../core/store/tables/fleet.js'
import { findProject, noteForeignChange } from '../core/store/tables/projects.js'
import type { Transaction } from '../core/store/database.js'
import type { Extracted } from '../core/install/unpack/extraction.js'
import type { PromoteRequest, RollbackRequest } from './admission.js'
import type { Comparer } from './comparer.js'
import { refuseSuperseded } from './approval.js'
import { type Beginning, refuseBeginning, refusePromotion } from './gateway.js'
import { reservedPaths } from './locks.js'
import type { Ends } from './ends.js'
import type { DeployFiles } from './files.js'
import type { DeployNeeds } from './needs.js'
import { type ExactChange, keepsOf, ownershipOf, readPlan, rulesOf, wishesOf } from './ownership.js'
import { exactEdits, type ExactGoal, type ExactNeeds, exactState, goalOf, undoGoal } from './exact.js'
import { describeLive } from './plan.js'
import { offeredBySource, refuseRollback } from './retention.js'
import { refuseUnlessFinal } from './record.js'
import { refusePlaced, refuseUnplaced } from './run.js'
import type { TargetTurns } from './queue.js'
import type { Signatures } from './signatures.js'
import type { Trees } from './trees.js'

/** What to plan. */
export type RollbackAsked = Pick<RollbackRequest, 'mode' | 'force'> & { signal: AbortSignal }

/** Makes plans of rollbacks. */
export type RollbackPlans = ReturnType<typeof createRollbackPlans>

export type RollbackPlanNeeds = ExactNeeds &
  Pick<DeployNeeds, 'settings' | 'clock'> & {
    comparer: Comparer
    ends: Pick<Ends, 'current'>
    files: Pick<DeployFiles, 'sbomIfAny'>
    signatures: Pick<Signatures, 'judgeSource' | 'refuseGoingBack'>
  }

/** What a target is to have, or why that is not possible. */
interface Wanted extends Pick<RollbackPlan, 'mode' | 'over' | 'problem'> {
  to: DeploymentRow | null
  entries: TimedEntry[]
  groups?: Array<[path: string, gid: number | null]>
  removes: Removes | null
  edited: Ownership['edited']
}

/** Maximum number of paths of each kind. */
const maxListed = 1_000
const permissionBits = 0o777
const typeBits = 0o170000
/** A tree on the wire has no file without permissions. */
const leastPermissions = 0o400
const noScripts = { origin: 'source deployment' } as const

/** Creates the plans of rollbacks. */
export function createRollbackPlans(needs: RollbackPlanNeeds) {
  const { store, comparer, ends } = needs

  function projectOf(projectId: string): Project {
    const project = findProject(store, projectId)
    if (project === undefined) throw notFound('Project', projectId)
    return project
  }

  async function planOf(project: Project, signal: AbortSignal, want: () => Promise<Wanted>): Promise<RollbackPlan> {
    const { to, entries, ...wanted } = await want()
    const { mode, over, problem, removes, edited, groups = [] } = wanted
    const tree = Buffer.from([...writeTree(entries, digestOf(entries))].join(''))
    const reserved = reservedPaths(store, project.id)
    const keeps = keepsOf(needs, project)
    const rules = { edited, reserved, groups, isExact: mode === 'exact' }
    const asked = { tree, listed: maxListed, removes, keeps, ...rules, signal }
    const { baseline, compared } = await comparer.compare(project, asked)
    const { counts, paths, bytes, checks, expected } = compared
    const live = to === null ? null : describeLive(to)
    const partial = expected === null
    return { success: true, mode, to: live, over, partial, baseline, counts, paths, bytes, checks, problem }
  }

  async function exactly(project: Project, goal: ExactGoal, signal: AbortSignal): Promise<Wanted> {
    const state = await exactState(needs, project, { goal, signal })
    const entries = state.wanted.flatMap(({ mtimeMs, source, ...entry }) =>
      source === null ? [] : [timedEntryOf({ ...entry, mtimeMs: mtimeMs ?? 0 })]
    )
    const groups: Wanted['groups'] = []
    for (const { path, gid } of state.wanted) if (gid !== undefined) groups.push([path, gid])
    const removes: Removes = { kind: 'listed', paths: Buffer.from(state.removed.map(path => `${path}\n`).join('')) }
    const { to, undone } = state
    needs.signatures.refuseGoingBack(project, to, to === null ? noScripts : offeredBySource(to))
    const edited = exactEdits(goal.force)
    return { mode: 'exact', to, over: undone.length, problem: null, entries, groups, removes, edited }
  }

  /** As its deployment: the rules are those of the policy. */
  async function overlay(project: Project, source: DeploymentRow, kind: 'again' | 'promotion'): Promise<Wanted> {
    refuseRollback(source)
    const offered = kind === 'again' ? offeredBySource(source) : noScripts
    await needs.signatures.judgeSource(project, source, { kind, offered, sbom: needs.files.sbomIfAny(source.id) })
    const { removes, edited } = rulesOf(wishesOf(project), project)
    const entries: TimedEntry[] = []
    for await (const file of readManifest(needs.files.manifest(source.id), source.fileCount ?? 0)) {
      entries.push(timedEntryOf({ ...file, mtimeMs: file.mtimeMs ?? 0 }))
    }
    return { mode: 'overlay', to: source, over: 0, problem: null, entries, removes, edited }
  }

  /** A refusal becomes the problem of a plan that changes nothing. */
  async function orProblem(want: () => Promise<Wanted>, { mode, to }: Pick<Wanted, 'mode' | 'to'>): Promise<Wanted> {
    try {
      return await want()
    } catch (error) {
      if (!(error instanceof Refusal) || !(error.kind === 'conflict' || isUnsigned(error))) throw error
      const problem = { code: error.code, message: error.message }
      return { mode, to, over: 0, problem, entries: [], removes: null, edited: 'ignore' }
    }
  }

  return {
    /** Says what a rollback to a deployment would do. Refuses: 404, and what a comparison refuses. */
    async rollback(deployId: string, { mode, force = false, signal }: RollbackAsked): Promise<RollbackPlan> {
      const recorded = findDeployment(store, deployId)
      if (recorded === undefined) throw notFound('Deployment', deployId)
      const source = ends.current(recorded)
      const project = projectOf(source.projectId)
      const wantedMode = mode ?? policyOf(project).rollback
      return planOf(project, signal, () =>
        orProblem(
          async () => {
            refuseUnlessFinal(source, 'roll back to')
            return wantedMode === 'exact'
              ? exactly(project, goalOf(source, force), signal)
              : overlay(project, source, 'again')
          },
          { mode: wantedMode, to: source }
        )
      )
    },

    /** Says what a promotion to a project would do. Refuses: 404, and what a comparison refuses. */
    async promotion(
      projectId: string,
      { from, signal, ...beginning }: Beginning & Pick<PromoteRequest, 'from'> & { signal: AbortSignal }
    ): Promise<RollbackPlan> {
      const recorded = findDeployment(store, from)
      if (recorded === undefined) throw notFound('Deployment', from)
      const source = ends.current(recorded)
      const project = projectOf(projectId)
      return planOf(project, signal, () =>
        orProblem(
          async () => {
            refusePromotion(needs, source, project)
            refuseBeginning(project, beginning, needs.clock.now())
            refusePlaced(store, project, 'plan a deployment of')
            return overlay(project, source, 'promotion')
          },
          { mode: 'overlay', to: source }
        )
      )
    },

    /** Says what a deployment would do that waits before it begins. Refuses: 404, 409 `not_waiting`. */
    async waiting(deployId: string, signal: AbortSignal): Promise<RollbackPlan> {
      const row = findDeployment(store, deployId)
      if (row === undefined) throw notFound('Deployment', deployId)
      if (!isWaitingToBegin(row)) {
        const sentence = `Deployment ${deployId} does not wait for an approval or its time (${row.status})`
        throw new Refusal('conflict', 'not_waiting', sentence)
      }
      const project = projectOf(row.projectId)
      return planOf(project, signal, () =>
        orProblem(
          async () => {
            refuseSuperseded(store, row)
            refusePlaced(store, project, 'plan a deployment of')
            const kept = findQueuedRelease(store, deployId)?.plan ?? null
            const { removes, edited } = rulesOf(kept === null ? wishesOf(project) : readPlan(kept), project)
            const archive = await openKept(needs.files.archive(deployId), extractionLimits(needs.settings))
            const found = await entriesOfArchive(archive, { signal }).finally(archive.close)
            const entries = found.map(timedEntryOf)
            return { mode: 'overlay', to: row, over: 0, problem: null, entries, removes, edited }
          },
          { mode: 'overlay', to: row }
        )
      )
    },

    /** Says what the undo of the last change of a project's target would do. Refuses the same. */
    async undo(projectId: string, { force = false, signal }: Omit<RollbackAsked, 'mode'>): Promise<RollbackPlan> {
      const project = projectOf(projectId)
      return planOf(project, signal, () =>
        orProblem(async () => exactly(project, undoGoal(store, project, { force }), signal), {
          mode: 'exact',
          to: null
        })
      )
    }
  }
}

/** Whether an error says that the release is not signed as the project asks for. */
function isUnsigned({ kind, code }: Refusal): boolean {
  return kind === 'forbidden' && (code.startsWith('signature_') || code === 'sbom_missing')
}

/** Returns an entry as a tree on the wire has it. */
function timedEntryOf({ path, mode, size, sha256, mtimeMs }: TimedEntry): TimedEntry {
  const isLink = (mode & typeBits) === (linkMode & typeBits)
  const permissions = mode & permissionBits || leastPermissions
  return { path, mode: isLink ? linkMode : fileType | permissions, size, sha256, mtimeMs: Math.round(mtimeMs) }
}

function digestOf(entries: readonly TimedEntry[]): string {
  const digest = createTreeDigest()
  for (const entry of entries) digest.add(entry)
  return digest.end()
}

/** An archive to extract over the target of a project. */
export interface RestoreRequest {
  projectId: string
  /** Path of the archive. The file stays. */
  archivePath: string
  /** The deployment that the archive belongs to, which then becomes the live one. Null if it has no record. */
  deployId: string | null
  signal?: AbortSignal | undefined
}

/** Puts the files over the others, whatever the policy of the project. */
const overlay: ExactChange = { edited: 'ignore', removes: null, exact: null }

/**
 * Creates the function that extracts an archive over a project's target, for an import. It is all or nothing, like a
 * deployment, and waits in the project's queue. It runs no scripts and writes no record, because an import brings its
 * own. If the archive belongs to no recorded deployment, the last known deployment stays the live one, and nobody can go
 * back exactly over this change. Refuses a project whose target is on nodes (409 `project_is_placed`, `not_placed`).
 */
export function createRestore(
  needs: Pick<DeployNeeds, 'store' | 'log' | 'settings' | 'copies'> & {
    turns: TargetTurns
    trees: Pick<Trees, 'read' | 'restored'>
    signatures: Pick<Signatures, 'refuseImport'>
  }
): (request: RestoreRequest) => Promise<Extracted> {
  const { store, turns } = needs

  function placeAgain(
    tx: Transaction,
    { deployId, projectId, beforeFrom }: { deployId: string; projectId: string; beforeFrom: readonly string[] }
  ): void {
    if (findDeployment(tx, deployId)?.projectId !== projectId) return
    placeDeployment(tx, deployId, { again: true })
    setBeforeFrom(tx, deployId, beforeFrom)
  }

  return async ({ projectId, archivePath, deployId, signal }) => {
    const project = findProject(store, projectId)
    if (project !== undefined) {
      refusePlaced(store, project, 'restore the archive of')
      refuseUnplaced(needs, project)
      needs.signatures.refuseImport(project)
    }
    return turns({ projectId, signal, cannot: 'Cannot restore the archive' }, async turn => {
      const extracted = await turn.extract(archivePath, {
        reserved: reservedPaths(store, projectId),
        ownership: await ownershipOf(needs, turn.project, overlay)
      })
      await store.write(tx => {
        if (deployId === null) noteForeignChange(tx, projectId)
        else placeAgain(tx, { deployId, projectId, beforeFrom: extracted.beforeFrom })
      })
      await needs.trees
        .restored(projectId, { manifestOf: turn.id, deployId })
        .catch(error => needs.log(`Cannot add the restored files to the tree of project ${projectId}`, error))
      await turn.settle()
      return extracted
    })
  }
}
