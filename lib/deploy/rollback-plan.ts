/* What a rollback or an undo would do (model/plan.ts). */

import { isRefused, isWaitingToBegin } from '../base/shared/api.js'
import { entriesOfArchive } from '../core/archive/archive-tree.js'
import { openKept } from '../core/archive/pack-set.js'
import { writeTree } from '../core/archive/tree-wire.js'
import type { TimedEntry } from '../core/archive/tree.js'
import { hasCode, Refusal } from '../base/errors.js'
import { extractionLimits } from '../core/install/unpack/extract.js'
import { readManifest } from '../core/install/manifest.js'
import type { Ownership, Removes } from '../core/install/ownership.js'
import type { DeploymentRow } from '../model/deployment.js'
import { policyOf } from '../model/policy.js'
import type { Project } from '../model/project.js'
import type { RollbackPlan } from '../model/plan.js'
import { createTreeDigest } from '../model/manifest.js'
import { fileType, linkMode } from '../base/shared/tree-text.js'
import { findDeployment, requireDeployment, placeDeployment, setBeforeFrom } from '../core/store/tables/deployments.js'
import { findQueuedRelease } from '../core/store/tables/fleet.js'
import { findProject, requireProject, noteForeignChange } from '../core/store/tables/projects.js'
import type { Transaction } from '../core/store/database.js'
import type { Extracted } from '../core/install/unpack/extraction.js'
import type { PromoteRequest, RollbackRequest } from './requests.js'
import { refuseSuperseded } from './user-actions.js'
import { type Beginning, refuseBeginning, refusePromotion, releaseOf } from './gateway.js'
import type { DeployFiles } from './files.js'
import type { DeployNeeds } from './needs.js'
import { type ExactChange, keepsOf, ownershipOf, readPlan, rulesOf, wishesOf, reservedPaths } from './ownership.js'
import { exactEdits, type ExactGoal, type ExactNeeds, exactState, goalOf, undoGoal } from './exact.js'
import { describeLive, type Comparer } from './plan.js'
import { type Again, noArchive, offeredBySource, refuseRollback } from './retention.js'
import { refuseUnlessFinal, type Ends } from './record.js'
import type { TargetTurns } from './queue.js'
import type { Signatures } from './signatures.js'
import type { Trees } from './trees.js'
import { refusePlaced, refuseUnplaced, refuseWishes } from './wishes.js'

/** What to plan. */
export type RollbackAsked = Pick<RollbackRequest, 'mode' | 'force'> & { signal: AbortSignal }

export type RollbackPlanNeeds = ExactNeeds &
  Pick<DeployNeeds, 'settings' | 'clock' | 'copies'> & {
    comparer: Comparer
    ends: Pick<Ends, 'current'>
    files: Pick<DeployFiles, 'sbomIfAny'>
    signatures: Pick<Signatures, 'judgeSource' | 'refuseGoingBack'>
  }

/** What a target is to have. */
interface Wanted extends Pick<RollbackPlan, 'over'> {
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

export type RollbackPlans = ReturnType<typeof createRollbackPlans>

export function createRollbackPlans(needs: RollbackPlanNeeds) {
  const { store, clock, ends } = needs
  return {
    /** Says what a rollback to a deployment would do. Refuses: 404, and what a comparison refuses. */
    async rollback(deployId: string, { mode, force = false, signal }: RollbackAsked): Promise<RollbackPlan> {
      const source = ends.current(requireDeployment(store, deployId))
      const project = requireProject(store, source.projectId)
      const asked = { project, signal, mode: mode ?? policyOf(project).rollback, to: source }
      return planOf(needs, asked, async () => {
        refuseWishes(store, project, { mode: asked.mode, force })
        refusePlaced(store, project, 'plan a deployment of')
        refuseUnlessFinal(source, 'roll back to')
        return asked.mode === 'exact'
          ? exactly(needs, project, { goal: goalOf(source, force), signal })
          : overlaid(needs, project, { source, kind: 'again', force, signal })
      })
    },

    /** Says what a promotion to a project would do. Refuses: 404, and what a comparison refuses. */
    async promotion(
      projectId: string,
      { from, signal, ...beginning }: Beginning & Pick<PromoteRequest, 'from'> & { signal: AbortSignal }
    ): Promise<RollbackPlan> {
      const asked = ends.current(requireDeployment(store, from))
      const source = releaseOf(store, asked)
      const project = requireProject(store, projectId)
      return planOf(needs, { project, signal, mode: 'overlay', to: source }, async () => {
        refusePromotion(needs, asked, project)
        refuseBeginning(project, beginning, clock.now())
        refusePlaced(store, project, 'plan a deployment of')
        return overlaid(needs, project, { source, kind: 'promotion', force: false, signal })
      })
    },

    /** Says what a deployment would do that waits before it begins. Refuses: 404, 409 `not_waiting`. */
    async waiting(deployId: string, signal: AbortSignal): Promise<RollbackPlan> {
      const row = requireDeployment(store, deployId)
      if (!isWaitingToBegin(row)) {
        const sentence = `Deployment ${deployId} does not wait for an approval or its time (${row.status})`
        throw new Refusal('conflict', 'not_waiting', sentence)
      }
      const project = requireProject(store, row.projectId)
      return planOf(needs, { project, signal, mode: 'overlay', to: row }, async () => {
        refuseSuperseded(store, row)
        refusePlaced(store, project, 'plan a deployment of')
        const { plan = null, isForNodes } = findQueuedRelease(store, deployId) ?? {}
        refuseUnplaced(needs, project, isForNodes)
        const rules = rulesOf(plan === null ? wishesOf(project) : readPlan(plan), project)
        const archive = await openKept(needs.files.archive(deployId), extractionLimits(needs.settings))
        const found = await entriesOfArchive(archive, { signal }).finally(archive.close)
        return { ...rules, to: row, over: 0, entries: found.map(timedEntryOf) }
      })
    },

    /** Says what the undo of the last change of a project's target would do. Refuses the same. */
    async undo(projectId: string, { force = false, signal }: Omit<RollbackAsked, 'mode'>): Promise<RollbackPlan> {
      const project = requireProject(store, projectId)
      return planOf(needs, { project, signal, mode: 'exact', to: null }, async () =>
        exactly(needs, project, { goal: undoGoal(store, project, { force }), signal })
      )
    }
  }
}

/** Plans what `want` returns. What it refuses is the problem of a plan that changes nothing. */
async function planOf(
  needs: RollbackPlanNeeds,
  asked: Pick<RollbackPlan, 'mode'> & { project: Project; to: DeploymentRow | null; signal: AbortSignal },
  want: () => Promise<Wanted>
): Promise<RollbackPlan> {
  const { project, mode, signal } = asked
  let problem: RollbackPlan['problem'] = null
  const { to, over, entries, groups, removes, edited } = await want().catch((error: unknown): Wanted => {
    if (!(error instanceof Refusal) || !(error.kind === 'conflict' || isUnsigned(error))) throw error
    problem = { code: error.code, message: error.message }
    return { to: asked.to, over: 0, entries: [], removes: null, edited: 'ignore' }
  })
  const { baseline, compared } = await needs.comparer.compare(project, {
    tree: Buffer.from([...writeTree(entries, digestOf(entries))].join('')),
    listed: maxListed,
    removes,
    keeps: keepsOf(needs, project),
    edited,
    reserved: reservedPaths(needs.store, project.id),
    groups: groups ?? [],
    isExact: mode === 'exact',
    signal
  })
  const { counts, paths, bytes, checks, expected } = compared
  const live = to === null ? null : describeLive(to)
  const partial = expected === null
  problem ??= problemOf({ checks, counts, paths })
  return { success: true, mode, to: live, over, partial, baseline, counts, paths, bytes, checks, problem }
}

/** Returns what the comparison found that would refuse the rollback: its first failed check, or what is in the way. */
function problemOf(compared: Pick<RollbackPlan, 'checks' | 'counts' | 'paths'>): RollbackPlan['problem'] {
  if (!isRefused(compared)) return null
  const [check] = compared.checks.filter(({ ok }) => !ok)
  const [conflict] = compared.paths.conflicts
  const code = check?.code ?? conflict?.code ?? 'target_changed'
  return { code, message: check?.message ?? conflict?.message ?? 'Something in the target is in the way' }
}

async function exactly(
  needs: RollbackPlanNeeds,
  project: Project,
  { goal, signal }: { goal: ExactGoal; signal: AbortSignal }
): Promise<Wanted> {
  const { wanted, removed, to, undone } = await exactState(needs, project, { goal, signal })
  const entries = wanted.flatMap(({ mtimeMs, source, ...entry }) =>
    source === null ? [] : [timedEntryOf({ ...entry, mtimeMs: mtimeMs ?? 0 })]
  )
  const groups: Wanted['groups'] = []
  for (const { path, gid } of wanted) if (gid !== undefined) groups.push([path, gid])
  const removes: Removes = { kind: 'listed', paths: Buffer.from(removed.map(path => `${path}\n`).join('')) }
  needs.signatures.refuseGoingBack(project, to, to === null ? noScripts : offeredBySource(to))
  return { to, over: undone.length, entries, groups, removes, edited: exactEdits(goal.force) }
}

/** As its deployment: the rules are those of the policy, and of the wish to replace edited files. */
async function overlaid(
  needs: RollbackPlanNeeds,
  project: Project,
  { source, kind, force, signal }: { source: DeploymentRow; kind: Again; force: boolean; signal: AbortSignal }
): Promise<Wanted> {
  const { files, signatures } = needs
  refuseRollback(source, kind)
  const offered = kind === 'again' ? offeredBySource(source) : noScripts
  await signatures.judgeSource(project, source, { kind, offered, sbom: files.sbomIfAny(source.id) })
  // Another hub may have it.
  if (needs.copies === undefined && !files.packs.has(source.id)) throw noArchive(source.id, kind)
  const entries = await entriesOf(needs, source, signal)
  return { ...rulesOf({ ...wishesOf(project), force }, project), to: source, over: 0, entries }
}

/** Returns the files of a deployment from their list; if that is lost, from the archive. */
async function entriesOf(
  { files, settings }: RollbackPlanNeeds,
  { id, fileCount }: DeploymentRow,
  signal: AbortSignal
): Promise<TimedEntry[]> {
  const entries: TimedEntry[] = []
  try {
    for await (const file of readManifest(files.manifest(id), fileCount ?? 0))
      entries.push(timedEntryOf({ ...file, mtimeMs: file.mtimeMs ?? 0 }))
    return entries
  } catch (error) {
    const isLost = hasCode(error, 'ENOENT') || (error instanceof Refusal && error.code === 'torn_manifest')
    if (!isLost) throw error
  }
  const archive = await openKept(files.archive(id), extractionLimits(settings))
  return (await entriesOfArchive(archive, { signal }).finally(archive.close)).map(timedEntryOf)
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
