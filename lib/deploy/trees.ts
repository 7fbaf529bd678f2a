/*
 * The owned trees of projects (core/install/owned-tree.ts).
 *
 * A tree follows from the records: it is the fold of the manifests of the deployments that have a number (`placed`), in
 * the order of these numbers. So nothing depends on the moment at which it is written. Each deployment that changed the
 * target updates it in the background after its record. A reader waits until the tree is up to date. A tree that is
 * missing, torn, or from another database (a restored backup) is made again from all manifests.
 *
 * A tree contains what svc put into the current deployPath. After a change of the deployPath it starts empty, unless
 * earlier deployments went to the same place.
 */

import { namedById } from '../base/digests.js'
import { existsSync, statSync } from 'node:fs'
import { readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  isUnusableTree,
  type OwnedHead,
  readOwnedHead,
  readOwnedTree,
  UnusableTree,
  createFoldThreads,
  type FoldThreads,
  type FoldedManifest,
  type FoldTask
} from '../core/install/owned-tree.js'
import { createTreeDigest, type OwnedEntry } from '../model/manifest.js'
import { type PlacedDeployment, placedDeployments, treeDigests } from '../core/store/tables/deployments.js'
import { findProject, requireProject } from '../core/store/tables/projects.js'
import { instantOf } from '../base/clock.js'
import { Refusal } from '../base/errors.js'
import { isFileAt, makeDirectory } from '../base/files.js'
import { isLink } from '../core/install/verify.js'
import type { Project } from '../model/project.js'
import type { ExactWindow, TreeSummary } from '../model/plan.js'
import { linkMode } from '../base/shared/tree-text.js'
import { filesOfReceipt } from './exact-state.js'
import type { DeployFiles } from './files.js'
import type { DeployNeeds } from './needs.js'

/** What is known about the files that svc put into a target: its tree, not yet, or that there are none. */
export type Owned =
  | {
      baseline: 'owned'
      head: OwnedHead
      /** The path of the tree, for a process with the rights of svc. */
      path: string
      entries(): AsyncIterable<OwnedEntry>
      contents(): Promise<Uint8Array>
    }
  | { baseline: 'building' | 'none' }

const defaultWaitMs = 2_000
/** Number of manifests that are folded in one pass: each is open while the tree is written. */
const manifestsAtOnce = 16
/** Number of deployments whose times are kept in memory. */
const maxNoted = 16

export function treesOf({ directory }: Pick<DeployNeeds['home'], 'directory'>): string {
  return join(directory, 'trees')
}

/** Names in that directory: the tree of a project, and one that is being written. */
export const treePattern = namedById('proj_', String.raw`tree(?:\.tmp)?`)

/** The owned trees of all projects. */
export class Trees {
  readonly #needs: Pick<DeployNeeds, 'store' | 'home' | 'log'> & { files: DeployFiles }
  readonly #directory: string
  readonly #threads = createFoldThreads()
  readonly #updates = new Map<string, Promise<OwnedHead | null>>()
  readonly #ctimes = new Map<string, Float64Array>()

  constructor(needs: Pick<DeployNeeds, 'store' | 'home' | 'log'> & { files: DeployFiles }) {
    this.#needs = needs
    this.#directory = treesOf(needs.home)
  }

  /**
   * Adds the files that an import put into the target, under a temporary id that has a manifest. They get the
   * deployment that they belong to, if it is recorded. Without one, they are in the tree until it is made again.
   */
  async restored(
    projectId: string,
    { manifestOf: id, deployId }: { manifestOf: string; deployId: string | null }
  ): Promise<void> {
    const { files } = this.#needs
    if (deployId !== null) {
      // A package usually contains the manifest, but that says what was replaced on another machine.
      await rename(files.manifest(id), files.manifest(deployId))
      for (const path of [files.scripted(deployId), files.scriptedImages(deployId)]) await rm(path, { force: true })
      if (existsSync(files.before(id))) await rename(files.before(id), files.before(deployId))
      else await rm(files.before(deployId), { force: true })
      return
    }
    const head = await this.#bringUpToDate(projectId)
    if (head === null) return
    await this.#fold({
      path: this.#pathOf(projectId),
      head,
      isAnew: false,
      manifests: [this.#manifestOf({ id, fileCount: null })]
    })
  }

  /** Keeps the times of the last changes of a deployment's files until they are in the tree. They are lost with the process. */
  noteTimes(deployId: string, ctimes: Float64Array | undefined): void {
    if (ctimes === undefined) return
    this.#ctimes.set(deployId, ctimes)
    const [oldest] = this.#ctimes.keys()
    if (this.#ctimes.size > maxNoted && oldest !== undefined) this.#ctimes.delete(oldest)
  }

  /** Digests a manifest in the thread of the trees. */
  digest(task: Parameters<FoldThreads['digest']>[0]): ReturnType<FoldThreads['digest']> {
    return this.#threads.digest(task)
  }

  /** Starts bringing a tree up to date. Errors are logged: the tree is made again when it is read. */
  update(projectId: string): void {
    this.#bringUpToDate(projectId).catch(error =>
      this.#needs.log(`Cannot update the tree of project ${projectId} yet`, error)
    )
  }

  /**
   * Returns the tree of a project, up to date. Waits at most `waitMs` for it (default: 2 seconds). Unless `checked` is
   * false, the tree is read to its end first, and made again if it is torn.
   */
  async read(projectId: string, waitMs: number = defaultWaitMs, checked: boolean = true): Promise<Owned> {
    const giveUp = new AbortController()
    const building = sleep(waitMs, 'building' as const, { signal: giveUp.signal, ref: false })
    try {
      const head = await Promise.race([this.#bringUpToDate(projectId, { checked }), building])
      if (head === 'building') return { baseline: 'building' }
      if (head === null) return { baseline: 'none' }
      const path = this.#pathOf(projectId)
      return { baseline: 'owned', head, path, entries: () => readOwnedTree(path), contents: () => readFile(path) }
    } finally {
      giveUp.abort()
      building.catch(() => {})
    }
  }

  /** Removes the tree of a project that no longer exists. */
  async remove(projectId: string): Promise<void> {
    await this.#updates.get(projectId)?.catch(() => null)
    await rm(this.#pathOf(projectId), { recursive: true, force: true })
  }

  /** Waits for the updates in progress, and ends idle threads. */
  async close(): Promise<void> {
    await Promise.allSettled(this.#updates.values())
    await this.#threads.close()
  }

  #pathOf(projectId: string): string {
    return join(this.#directory, `${projectId}.tree`)
  }

  /**
   * Brings the tree up to date after all earlier updates of the project. Resolves with null if nothing was placed. With
   * `checked`, a tree that is up to date is also read to its end, where a torn one is noticed.
   */
  #bringUpToDate(projectId: string, { checked = false } = {}): Promise<OwnedHead | null> {
    const before = this.#updates.get(projectId) ?? Promise.resolve(null)
    const update = before
      .catch(() => null)
      .then(() => this.#makeCurrent(projectId, { checked }))
      .catch(error => {
        if (isUnusableTree(error)) return this.#makeCurrent(projectId, { isAnew: true })
        throw error
      })
    this.#updates.set(projectId, update)
    const forget = (): void => {
      if (this.#updates.get(projectId) === update) this.#updates.delete(projectId)
    }
    update.then(forget, forget)
    return update
  }

  async #makeCurrent(
    projectId: string,
    { isAnew = false, checked = false }: { isAnew?: boolean; checked?: boolean }
  ): Promise<OwnedHead | null> {
    const { store, files } = this.#needs
    const target = findProject(store, projectId)?.deployPath
    const placed = target === undefined ? [] : placedDeployments(store, projectId, target)
    const last = placed.at(-1)
    if (target === undefined || last === undefined) return null
    const path = this.#pathOf(projectId)
    const head = isAnew ? null : await headOf(path)
    const isOfThisHistory = placed.some(({ id, placed: number }) => id === head?.deployId && number === head.sequence)
    const known = head?.target === target && isOfThisHistory ? head : null
    const stamp = stampOf(files.scripted(last.id))
    const stamped = stamp === undefined ? {} : { scripted: stamp }
    let done = known?.sequence ?? 0
    // Scripts of the last deployment have changed more since: its manifest is folded in again.
    if (known !== null && done === last.placed && known.scripted !== stamp) done--
    if (known !== null && done === last.placed) {
      if (checked) await this.#threads.run({ kind: 'check', path })
      return known
    }
    await makeDirectory(this.#directory, 0o700)
    let isEmpty = known === null
    // What is folded at once was written just now. What is read again later may have been exchanged.
    const trees = isEmpty ? treeDigests(store) : null
    const all = new Set(trees?.values())
    const manifestOf = (each: PlacedDeployment): FoldedManifest => {
      if (trees === null) return this.#manifestOf(each)
      const digests = { own: trees.get(each.id), all, files: filesOfReceipt(store, each.id) }
      return { ...this.#manifestOf(each), digests }
    }
    // A file cannot be renamed over a directory.
    if (isEmpty && !isFileAt(path)) await rm(path, { recursive: true, force: true })
    do {
      const next = placed.filter(({ placed: number }) => number > done).slice(0, manifestsAtOnce)
      const { id: deployId, placed: sequence } = next.at(-1) ?? last
      const head = { deployId, sequence, target, ...(deployId === last.id && stamped) }
      await this.#fold({ path, head, isAnew: isEmpty, manifests: next.map(manifestOf) })
      done = sequence
      isEmpty = false
    } while (done < last.placed)
    return { deployId: last.id, sequence: last.placed, target, ...stamped }
  }

  #manifestOf({ id, fileCount }: Pick<PlacedDeployment, 'id' | 'fileCount'>): FoldedManifest {
    return {
      path: this.#needs.files.manifest(id),
      scripted: this.#needs.files.scripted(id),
      deployId: id,
      fileCount: fileCount ?? 0,
      ctimes: this.#ctimes.get(id)
    }
  }

  async #fold(task: Omit<FoldTask & { kind: 'fold' }, 'kind'>): Promise<void> {
    for (const { deployId, reason } of await this.#threads.run({ kind: 'fold', ...task })) {
      this.#needs.log(`The tree of a project lacks files of deployment ${deployId}`, new Error(reason))
    }
  }
}

/** Returns what distinguishes a file of changes by scripts from an earlier one; undefined if there is none. */
function stampOf(path: string): string | undefined {
  const stats = statSync(path, { throwIfNoEntry: false })
  return stats === undefined ? undefined : `${stats.ino}:${stats.size}:${stats.mtimeMs}`
}

async function headOf(path: string): Promise<OwnedHead | null> {
  try {
    return await readOwnedHead(path)
  } catch (error) {
    if (isUnusableTree(error)) return null
    throw error
  }
}

/*
 * The state of the files that svc owns in the target of a project: their number, size and digest, and the results of
 * the last verification and the last search for edited files. It is kept in memory, and describes one state of the
 * owned tree: after the next deployment it starts empty.
 */

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
export type TreeStates = ReturnType<typeof createTreeStates>

export interface TreeStateNeeds extends Pick<DeployNeeds, 'store' | 'clock' | 'drifted'> {
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
export function createTreeStates(needs: TreeStateNeeds) {
  const { store, clock, trees, windowOf, searchDrift } = needs
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
    needs.drifted?.(projectId, count)
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
    /** Returns the figures of an owned tree, which is read if they are not known yet. */
    figures,

    /** Remembers the result of a verification of this state. */
    verified(projectId: string, head: OwnedHead, differing: number): void {
      stateOf(projectId, head).verified = { at: instantOf(clock), differing }
      needs.drifted?.(projectId, differing)
    },

    /** Remembers the number of edited files in the current state. */
    drifted,

    /** Refuses: 404. */
    async summary({ projectId, drift, signal }: SummaryRequest): Promise<TreeSummary> {
      const project = requireProject(store, projectId)
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

    /** Forgets a removed project. */
    forget: (projectId: string): void => void states.delete(projectId)
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
