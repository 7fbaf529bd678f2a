/* What a deployment is told about the files that svc owns in its target (core/install/ownership.ts), and what it says. */

import { existsSync } from 'node:fs'
import { oneLine } from '../base/text.js'
import { Refusal } from '../base/errors.js'
import { foldManifest, ownedContents, type OwnedHead, readOwnedEntries } from '../core/install/owned-tree.js'
import { readScripted, withScripted } from '../core/install/scripted-file.js'
import type { Ownership, Removes } from '../core/install/ownership.js'
import type { Edits } from '../core/install/reckon.js'
import type { Extracted } from '../core/install/unpack/extraction.js'
import type { PruneMode } from '../model/plan.js'
import { policyOf } from '../model/policy.js'
import type { Project } from '../model/project.js'
import { archivedDeployments } from '../core/store/tables/deployments.js'
import type { Reader } from '../core/store/database.js'
import { findMaintenance } from '../core/store/tables/projects.js'
import { type Expected, planOutdated } from '../core/install/expected.js'
import type { DeployNeeds } from './needs.js'
import type { Trees } from './trees.js'

/** What a deployment may do about files of svc that somebody edited, or that it does not contain. */
export interface Wishes {
  prune: PruneMode
  /** Whether it replaces edited files although the policy `drift` is `refuse`. */
  force: boolean
}

/** What an exact change needs, instead of wishes. */
export type ExactChange = Pick<Ownership, 'exact' | 'removes' | 'edited'>

/** Returns the paths that archives for this project must not touch. */
export function reservedPaths(db: Reader, projectId: string): string[] {
  const row = findMaintenance(db, projectId)
  return row === undefined ? [] : [row.path]
}

/** Time to wait for the owned tree. */
const waitMs = 10_000
/** The same if the deployment cannot go on without it. */
export const longWaitMs = 60_000
const bytesPerMegabyte = 1024 * 1024

/** Returns what the policy of a project wishes, unless a plan says otherwise. */
export function wishesOf(project: Project): Wishes {
  return { prune: policyOf(project).prune, force: false }
}

/**
 * Returns what an extraction needs to know. Refuses (`unavailable`, tree_not_ready) if it needs the owned tree, and that
 * is not made in time.
 */
export async function ownershipOf(
  { store, settings, trees }: Pick<DeployNeeds, 'store' | 'settings'> & { trees: Pick<Trees, 'read'> },
  project: Project,
  asked: Wishes | ExactChange
): Promise<Ownership> {
  const rules = 'exact' in asked ? asked : rulesOf(asked, project)
  const needsTree = rules.edited === 'refuse' || rules.edited === 'keep' || rules.removes !== null
  const owned = await trees.read(project.id, needsTree ? longWaitMs : waitMs, needsTree)
  if (owned.baseline === 'building' && needsTree) throw notReady()
  return {
    tree: owned.baseline === 'owned' ? owned.path : null,
    isUnknown: owned.baseline === 'building',
    ...rules,
    ...keepsOf({ store, settings }, project)
  }
}

/** Returns the same for a deployment whose pre-deploy script may have changed files: these are not edited. */
export async function withEarlyChanges(ownership: Ownership, scripted: string, head: OwnedHead): Promise<Ownership> {
  if (ownership.tree === null || !existsSync(scripted)) return ownership
  const changed = withScripted(noLines(), readScripted(scripted), head.deployId)
  const entries = foldManifest(readOwnedEntries(ownership.tree), changed, head.deployId)
  return { ...ownership, tree: await ownedContents(head, entries) }
}

async function* noLines(): AsyncGenerator<never> {}

/** Returns what is kept of replaced files: the archives, and how much beside them. */
export function keepsOf(
  { store, settings }: Pick<DeployNeeds, 'store' | 'settings'>,
  project: Project
): Pick<Ownership, 'archives' | 'before'> {
  return {
    archives: archivedDeployments(store, project.id).map(({ id }) => id),
    before: {
      maxBytes: settings.number('max_before_size') * bytesPerMegabyte,
      isRequired: policyOf(project).exact === 'required'
    }
  }
}

/** Returns the rules of a deployment with these wishes. */
export function rulesOf({ prune, force }: Wishes, project: Project): ExactChange {
  const { drift, protect } = policyOf(project)
  return {
    edited: drift === 'off' ? 'ignore' : drift === 'refuse' && force ? 'warn' : drift,
    removes: prune === 'off' ? null : removesOf(prune, protect),
    exact: null
  }
}

function removesOf(prune: PruneMode, protect: readonly string[]): Removes {
  const takesUnowned = prune === 'foreign'
  return { kind: 'absent', protect, isForced: prune === 'force' || takesUnowned, ...(takesUnowned && { takesUnowned }) }
}

/** Returns the 503 for an owned tree that is not made in time. */
export function notReady(): Refusal {
  const sentence =
    'Nothing was changed: the list of the files that svc owns in the target is still being made. Try again'
  return new Refusal('unavailable', 'tree_not_ready', sentence)
}

/** Returns the lines of the output about edited files. */
export function linesOfEdits({ replaced, kept }: Pick<Extracted, 'replaced' | 'kept'>, project: Project): string[] {
  const isSilent = policyOf(project).drift === 'off'
  return [
    ...(replaced === null || isSilent ? [] : linesOf('replaced', replaced)),
    ...(kept === null ? [] : linesOf('kept', kept))
  ]
}

function linesOf(verb: string, { count, files }: Edits): string[] {
  const lines = files.map(({ path, since, isGone }) => {
    if (isGone) return `→ kept "${oneLine(path)}" away, which was removed on the server after deployment ${since}`
    const when =
      since === '' ? 'which svc did not put there' : `which was edited on the server after deployment ${since}`
    return `→ ${verb} "${oneLine(path)}", ${when}`
  })
  const more = count - files.length
  return more > 0
    ? [...lines, `→ ${verb} ${more} more files that were edited on the server, or that svc did not put there`]
    : lines
}

/** A plan that an upload can name. */
export interface KeptPlan extends Wishes {
  projectId: string
  /** The deployment whose files were in the target; null if there was none. */
  liveId: string | null
  expected: Expected
  /** Number of files that would be removed. */
  pruned: number
}

/** Returns a plan as a text, for a deployment that waits longer than this process may run. */
export function writePlan(plan: KeptPlan): string {
  const [marks, removedMarks] = [plan.expected.marks, plan.expected.removedMarks].map(textOfMarks)
  return JSON.stringify({ ...plan, expected: { ...plan.expected, marks, removedMarks } })
}

/** Returns the plan of such a text. */
export function readPlan(text: string): KeptPlan {
  const plan = JSON.parse(text) as KeptPlan & { expected: { marks: string; removedMarks: string } }
  const [marks, removedMarks] = [plan.expected.marks, plan.expected.removedMarks].map(marksOfText)
  return { ...plan, expected: { ...plan.expected, marks, removedMarks } as Expected }
}

function textOfMarks(marks: Uint8Array): string {
  return Buffer.from(marks).toString('base64')
}

function marksOfText(text: string): Uint8Array {
  return new Uint8Array(Buffer.from(text, 'base64'))
}

const maxPlans = 64
/** Maximum size of the marks of all plans: 16 MB are two million paths. */
const maxBytes = 16 * 1024 * 1024
const keptMs = 15 * 60_000

/** Creates an empty store of plans. `elapsedMs` measures their age. */
export function createKeptPlans(elapsedMs: () => number) {
  const plans = new Map<string, KeptPlan & { untilMs: number }>()
  let bytes = 0

  function drop(planId: string): void {
    bytes -= sizeOf(plans.get(planId))
    plans.delete(planId)
  }

  function dropExpired(): void {
    for (const [planId, { untilMs }] of plans) if (untilMs <= elapsedMs()) drop(planId)
  }

  return {
    /** Keeps a plan, and drops the oldest ones. Returns the time for which it is kept, in milliseconds. */
    keep(planId: string, plan: KeptPlan): number {
      dropExpired()
      bytes += sizeOf(plan)
      plans.set(planId, { ...plan, untilMs: elapsedMs() + keptMs })
      for (const oldest of plans.keys()) {
        if (oldest === planId || (plans.size <= maxPlans && bytes <= maxBytes)) break
        drop(oldest)
      }
      return keptMs
    },

    /** Returns a plan that has not expired. */
    find(planId: string): KeptPlan | undefined {
      dropExpired()
      return plans.get(planId)
    }
  }
}

function sizeOf(plan: KeptPlan | undefined): number {
  return plan === undefined ? 0 : plan.expected.marks.length + plan.expected.removedMarks.length
}

/** Refuses (`conflict`, plan_outdated) a plan if the files of another deployment are in the target by now. */
export function refuseOtherLive({ liveId }: KeptPlan, nowLiveId: string | null): void {
  if (liveId === nowLiveId) return
  throw planOutdated(
    nowLiveId === null ? 'no deployment is in place' : `deployment ${nowLiveId} was made after the plan`
  )
}
