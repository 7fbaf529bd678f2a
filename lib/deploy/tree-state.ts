/*
 * The state of the files that svc owns in the target of a project: their number, size and digest, and the results of
 * the last verification and the last search for edited files. It is kept in memory, and describes one state of the
 * owned tree: after the next deployment it starts empty.
 */
import { instantOf } from '../base/clock.js'
import { notFound, Refusal } from '../base/errors.js'
import { UnusableTree, type OwnedHead } from '../install/owned-tree.js'
import { isLink } from '../install/verify.js'
import type { Project } from '../model/project.js'
import { createTreeDigest } from '../model/tree.js'
import type { ExactWindow } from '../model/rollback-plan.js'
import type { TreeSummary } from '../model/verify.js'
import { linkMode } from '../shared/tree-text.js'
import { findProject } from '../store/tables/projects.js'
import type { DeployNeeds } from './needs.js'
import type { Owned, Trees } from './trees.js'

/** Number and size of the files of an owned tree, and its digest. */
export interface TreeFigures {
  files: number
  bytes: number
  treeSha256: string
}

/** What is asked about the files of a project. */
export interface SummaryRequest {
  projectId: string
  /** Whether edited files are searched for if the last search is older than an hour. */
  drift: boolean
  signal: AbortSignal
}

/** The state of the files of all projects. */
export interface TreeStates {
  /** Returns the figures of an owned tree, which is read if they are not known yet. */
  figures(projectId: string, owned: Extract<Owned, { baseline: 'owned' }>): Promise<TreeFigures>
  /** Remembers the result of a verification of this state. */
  verified(projectId: string, head: OwnedHead, differing: number): void
  /** Remembers the number of edited files in the current state. */
  drifted(projectId: string, count: number): Promise<void>
  /** Refuses: 404. */
  summary(request: SummaryRequest): Promise<TreeSummary>
  /** Forgets a removed project. */
  forget(projectId: string): void
}

/** Dependencies of `createTreeStates`. */
export interface TreeStateNeeds extends Pick<DeployNeeds, 'store' | 'clock'> {
  trees: Pick<Trees, 'read'>
  /** Returns how far a project can go back exactly. */
  windowOf(projectId: string): ExactWindow
  /** Searches for edited files, and calls `drifted`. */
  searchDrift(project: Project, signal: AbortSignal): Promise<void>
}

interface State extends Pick<TreeSummary, 'verified' | 'drift'> {
  head: OwnedHead
  figures: Promise<TreeFigures> | null
  driftAtMs: number
}

/** Time for which a result of a search for edited files is shown without another search. */
const driftLastsMs = 60 * 60_000

/** Creates the memory of a server. */
export function createTreeStates({ store, clock, trees, windowOf, searchDrift }: TreeStateNeeds): TreeStates {
  const states = new Map<string, State>()

  function stateOf(projectId: string, head: OwnedHead): State {
    const known = states.get(projectId)
    if (known !== undefined && isSameHead(known.head, head)) return known
    const state: State = { head, figures: null, verified: null, drift: null, driftAtMs: -Infinity }
    states.set(projectId, state)
    return state
  }

  function figures(projectId: string, owned: Extract<Owned, { baseline: 'owned' }>): Promise<TreeFigures> {
    const state = stateOf(projectId, owned.head)
    const reading = state.figures ?? measureAny(projectId, owned)
    state.figures = reading
    reading.catch(() => {
      if (state.figures === reading) state.figures = null
    })
    return reading
  }

  /** Measures a tree. A torn one is made again first. */
  async function measureAny(projectId: string, owned: Extract<Owned, { baseline: 'owned' }>): Promise<TreeFigures> {
    try {
      return await measure(owned)
    } catch (error) {
      if (!(error instanceof UnusableTree)) throw error
      await trees.read(projectId)
      return measure(owned)
    }
  }

  async function drifted(projectId: string, count: number): Promise<void> {
    const owned = await trees.read(projectId, undefined, false)
    if (owned.baseline !== 'owned') return
    const state = stateOf(projectId, owned.head)
    state.drift = { at: instantOf(clock), count }
    state.driftAtMs = clock.now()
  }

  async function searchNow(project: Project, { head }: { head: OwnedHead }, signal: AbortSignal): Promise<void> {
    const { driftAtMs } = stateOf(project.id, head)
    if (clock.now() - driftAtMs < driftLastsMs) return
    try {
      await searchDrift(project, signal)
    } catch (error) {
      // The summary then contains the earlier result, or none.
      if (!(error instanceof Refusal)) throw error
    }
  }

  return {
    figures,
    verified(projectId, head, differing) {
      stateOf(projectId, head).verified = { at: instantOf(clock), differing }
    },
    drifted,
    async summary({ projectId, drift, signal }) {
      const project = findProject(store, projectId)
      if (project === undefined) throw notFound('Project', projectId)
      const owned = await trees.read(projectId, undefined, false)
      const way = windowOf(projectId)
      if (owned.baseline !== 'owned') {
        const { baseline } = owned
        const none = { liveId: null, treeSha256: null, verified: null, drift: null, ...way }
        return { success: true, baseline, files: 0, bytes: 0, ...none }
      }
      if (drift) await searchNow(project, owned, signal)
      const found = await figures(projectId, owned)
      const state = stateOf(projectId, owned.head)
      const results = { verified: state.verified, drift: state.drift, ...way }
      return { success: true, baseline: 'owned', ...found, liveId: owned.head.deployId, ...results }
    },
    forget: projectId => void states.delete(projectId)
  }
}

/** Whether two heads are those of the same state. */
export function isSameHead(a: OwnedHead, b: OwnedHead): boolean {
  return a.deployId === b.deployId && a.sequence === b.sequence && a.target === b.target && a.scripted === b.scripted
}

async function measure(owned: Extract<Owned, { baseline: 'owned' }>): Promise<TreeFigures> {
  const digest = createTreeDigest()
  let [files, bytes] = [0, 0]
  for await (const { path, mode, size, sha256 } of owned.entries()) {
    files++
    bytes += size
    digest.add({ path, mode: isLink({ mode }) ? linkMode : mode, size, sha256 })
  }
  return { files, bytes, treeSha256: digest.end() }
}
