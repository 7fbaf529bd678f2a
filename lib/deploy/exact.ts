/*
 * Exact rollbacks and undos (exact-state.ts): which deployments are undone, whether all that is needed is there, and the
 * archive that a deployment of the difference extracts.
 */
import { existsSync } from 'node:fs'
import { composeArchive, type Composed } from '../core/archive/compose.js'
import { countOf } from '../base/text.js'
import { Refusal } from '../base/errors.js'
import { readManifestLines } from '../core/install/manifest.js'
import { readScripted, withScripted } from '../core/install/scripted-file.js'
import { createFilesDigest, isOfReceipt, readOwnedEntries } from '../core/install/owned-tree.js'
import type { WantedEntry } from '../core/install/ownership.js'
import type { DeploymentRow } from '../model/deployment.js'
import type { Project } from '../model/project.js'
import type { ExactWindow } from '../model/plan.js'
import type { Reader } from '../core/store/database.js'
import { findDeployment, liveDeployment, placements, type Placement } from '../core/store/tables/deployments.js'
import { foreignChangeOf, requireProject } from '../core/store/tables/projects.js'
import {
  type ContentSource,
  type ExactState,
  exactStateOf,
  filesOfReceipt,
  findScripted,
  notExactRefusal,
  hasSource,
  pathOfSource,
  treeNotReady,
  type Undone
} from './exact-state.js'
import type { DeployFiles } from './files.js'
import type { DeployNeeds } from './needs.js'
import type { ExactChange } from './ownership.js'
import { compareTreePaths } from '../base/shared/tree-text.js'
import type { ManifestLine, OwnedEntry } from '../model/manifest.js'
import type { ReceiptFiles } from '../model/receipt.js'
import type { Trees } from './trees.js'
import type { Verifier } from './verify.js'

/** The state that a target is to have. */
export interface ExactGoal {
  /** The number of the deployment after which the target was so; 0: before the first one. */
  placed: number
  /** Whether files that somebody edited since are taken back, too. */
  force: boolean
  /** The only deployment that may be undone; null: any number of them. */
  undoOf: string | null
}

/** The deployments between a state and the current one. */
export interface ExactRange {
  /** From new to old. */
  undone: Placement[]
  /** The deployment after which the target was so; null: before the first one. */
  to: DeploymentRow | null
}

export type ExactNeeds = Pick<DeployNeeds, 'store'> & {
  files: DeployFiles
  trees: Pick<Trees, 'read'>
  verifier: Pick<Verifier, 'differences'>
}

/** Manifests that are open at a time to find out what svc owned. A file that none of them has is left as it was. */
const maxGoalManifests = 50
/** Time to wait for the owned tree. */
const treeWaitMs = 60_000

/** Returns the goal of an exact rollback to a deployment. Refuses (`conflict`, not_exact) one without a number. */
export function goalOf(source: DeploymentRow, force: boolean): ExactGoal {
  if (source.placed !== null) return { placed: source.placed, force, undoOf: null }
  throw notExactRefusal(source.id, 'its files were never in this target, or were put back')
}

/**
 * Returns the deployments that lie between a goal and the current state. Refuses (`conflict`): nothing_to_undo,
 * not_exact, foreign_change; undo_outdated if another deployment was made since.
 */
export function exactRange(store: Reader, project: Project, goal: ExactGoal): ExactRange {
  const all = placements(store, project.id)
  const [last] = all
  if (last === undefined) throw nothingToUndo(project)
  if (goal.undoOf !== null && last.id !== goal.undoOf) throw undoOutdated(goal.undoOf, last.id)
  const after = all.filter(({ placed }) => placed > goal.placed)
  after.forEach(({ placed, id }, at) => {
    const expected = last.placed - at
    if (placed !== expected) throw notExactRefusal(id, `the record of the change after it (number ${expected}) is gone`)
  })
  const oldest = after.at(-1)
  if (oldest !== undefined && oldest.placed !== goal.placed + 1) {
    throw notExactRefusal(oldest.id, 'the record of the change before it is gone')
  }
  const foreign = foreignChangeOf(store, project.id)
  // An undo restores the state just before, with the changes of the import.
  const isMixed = foreign === goal.placed && goal.undoOf !== null
  if (foreign !== null && foreign >= goal.placed && !isMixed) throw foreignChange()
  const isHere = ({ target }: Placement): boolean => target === project.deployPath
  const found = all.find(({ placed }) => placed === goal.placed)
  // A rollback leaves them where they are. An undo would say that it has taken them back.
  const elsewhere = goal.undoOf === null ? undefined : after.find(each => !isHere(each))
  if (elsewhere !== undefined) throw notExactRefusal(elsewhere.id, 'its files went to another directory')
  if (found !== undefined && !isHere(found)) {
    const [id, which] = goal.undoOf === null ? [found.id, 'its files'] : [last.id, `the files of ${found.id} before it`]
    throw notExactRefusal(id, `${which} went to another directory`)
  }
  const to = found === undefined || isMixed ? null : (findDeployment(store, found.id) ?? null)
  return { undone: after.filter(isHere), to }
}

/**
 * Returns the goal of the undo of the last change of a target; with `since`, of all changes from that deployment on. Refuses
 * (`conflict`, nothing_to_undo).
 */
export function undoGoal(
  store: Reader,
  project: Project,
  { force = false, since }: { force?: boolean | undefined; since?: string | undefined }
): ExactGoal {
  const live = liveDeployment(store, project.id)
  const oldest = since === undefined ? live : findDeployment(store, since)
  if (live === undefined || oldest === undefined || oldest.placed === null) throw nothingToUndo(project)
  return { placed: oldest.placed - 1, force, undoOf: live.id }
}

/**
 * Computes the way to a goal. Refuses what `exactRange` and `exactStateOf` refuse, and (`unavailable`, tree_not_ready).
 */
export async function exactState(
  { store, files, trees, verifier }: ExactNeeds,
  project: Project,
  { goal, signal }: { goal: ExactGoal; signal: AbortSignal }
): Promise<ExactState & ExactRange> {
  const range = exactRange(store, project, goal)
  const owned = await trees.read(project.id, treeWaitMs)
  if (owned.baseline === 'building') throw treeNotReady()
  const entries = owned.baseline === 'owned' ? readOwnedEntries(await owned.contents()) : noEntries()
  const state = await exactStateOf(
    range.undone.map(placement => undoneOf({ store, files }, placement)),
    entries,
    goal.undoOf === null ? upToGoal({ store, files }, project, goal) : []
  )
  if (goal.force && goal.undoOf === null) {
    const asked = { paths: null, isAlone: false, withTimes: true, signal }
    const { different, missing } = await verifier.differences(project, asked)
    if (missing === 'building') throw treeNotReady()
    addEdited(state, different)
  }
  await findScripted(files, state.wanted, ({ path }, deployId) => {
    throw notExactRefusal(deployId, `what its script made of "${path}" was too large to be kept`)
  })
  const archives = new Map<string, boolean>()
  const isThere = (source: ContentSource): boolean => {
    const at = pathOfSource(files, source)
    // A manifest names them, and a process of the project's user may have written it.
    const isOwn = (): boolean =>
      findDeployment(store, source.deployId)?.projectId === project.id && hasSource(files, source)
    const known = archives.get(at) ?? isOwn()
    archives.set(at, known)
    return known
  }
  for (const { path, source } of state.wanted) {
    if (source === null || isThere(source)) continue
    const what = source.kind === 'archive' ? 'the archive' : 'the copy of files'
    throw notExactRefusal(source.deployId, `${what} of ${source.deployId}, which contains "${path}", has been removed`)
  }
  return { ...state, ...range }
}

/** Adds edited files that the undone deployments did not change: they are to be as the goal left them, too. */
function addEdited({ wanted, removed }: ExactState, different: readonly OwnedEntry[]): void {
  const known = new Set([...wanted.map(({ path }) => path), ...removed])
  for (const { since, ino: _, ...entry } of different)
    if (!known.has(entry.path)) wanted.push({ ...entry, source: { kind: 'archive', deployId: since } })
  wanted.sort((a, b) => compareTreePaths(a.path, b.path))
}

/** Returns the deployments up to a goal of which there is a list of files, from old to new. */
function upToGoal({ store, files }: Pick<ExactNeeds, 'store' | 'files'>, project: Project, goal: ExactGoal): Undone[] {
  return placements(store, project.id)
    .filter(
      ({ id, placed, target }) =>
        placed <= goal.placed && target === project.deployPath && existsSync(files.manifest(id))
    )
    .slice(0, maxGoalManifests)
    .map(placement => undoneOf({ store, files }, placement))
    .reverse()
}

async function* noEntries(): AsyncGenerator<never> {}

/** Yields the lines of a manifest. Refuses (`conflict`, not_exact) at their end if the receipt says something else. */
async function* asInReceipt(
  lines: AsyncIterable<ManifestLine>,
  told: ReceiptFiles | null,
  id: string
): AsyncGenerator<ManifestLine> {
  if (told === null) return yield* lines
  const digest = createFilesDigest()
  for await (const line of lines) {
    digest.add(line)
    yield line
  }
  if (!isOfReceipt(digest.end(), told)) throw notExactRefusal(id, 'its list of files contradicts its receipt')
}

function undoneOf({ store, files }: Pick<ExactNeeds, 'store' | 'files'>, { id, fileCount }: Placement): Undone {
  const path = files.manifest(id)
  return {
    id,
    async *lines() {
      if (!existsSync(path)) throw notExactRefusal(id, 'the list of its files has been removed')
      try {
        const lines = asInReceipt(readManifestLines(path, fileCount ?? 0), filesOfReceipt(store, id), id)
        yield* withScripted(lines, readScripted(files.scripted(id)), id)
      } catch (error) {
        if (error instanceof Refusal && error.code === 'not_exact') throw error
        if (error instanceof Refusal) throw notExactRefusal(id, 'the list of its files is damaged')
        throw error
      }
    }
  }
}

/** Returns the line of the output about a way back. */
export function exactSentence({ wanted, removed, undone, to }: ExactState & ExactRange): string {
  const goal = to === null ? 'to the state before the first deployment' : `to ${to.id}`
  const files = wanted.filter(({ source }) => source !== null).length
  const what = `brings back ${countOf(files, 'file')}, removes ${removed.length}`
  return `exactly ${goal}, over ${countOf(undone.length, 'deployment')}: ${what}`
}

/** Composes the archive of a way back. */
export function composeExact(files: DeployFiles, deployId: string, { wanted }: ExactState): Promise<Composed> {
  const entries = wanted.map(({ path, mode, mtimeMs, source }) => ({
    path,
    mode,
    mtimeMs: mtimeMs ?? 0,
    source: source === null ? null : pathOfSource(files, source)
  }))
  return composeArchive(files.archive(deployId), entries)
}

/** Returns what happens to edited files. */
export function exactEdits(force: boolean): 'warn' | 'keep' {
  return force ? 'warn' : 'keep'
}

/** Returns what the extraction of that archive is told. */
export function exactChangeOf({ wanted, removed, directories }: ExactState, force: boolean): ExactChange {
  const lines = wanted.map(({ source: _, ...entry }): string => `${JSON.stringify(entry satisfies WantedEntry)}\n`)
  return {
    edited: exactEdits(force),
    removes: { kind: 'listed', paths: linesOf(removed) },
    exact: { wanted: Buffer.from(lines.join('')), directories: linesOf(directories) }
  }
}

function linesOf(paths: readonly string[]): Uint8Array {
  return Buffer.from(paths.map(path => `${path}\n`).join(''))
}

/** Returns how far a project can go back exactly, as far as its records and files tell without reading them. */
export function exactWindow({ store, files }: Pick<ExactNeeds, 'store' | 'files'>, projectId: string): ExactWindow {
  const project = requireProject(store, projectId)
  const all = placements(store, projectId)
  const foreign = foreignChangeOf(store, projectId) ?? -1
  const [last] = all
  const isUndoable = ({ id, target, beforeFrom }: Placement): boolean =>
    target !== project.deployPath || (existsSync(files.manifest(id)) && hasContents(files, id, beforeFrom))
  const broken = all.findIndex((each, at) => each.placed !== (last as Placement).placed - at || !isUndoable(each))
  const undoable = broken === -1 ? all : all.slice(0, broken)
  /** Whether the state before so many deployments was one of this directory. Only undos lead to that before the first one. */
  const isHere = (steps: number): boolean =>
    (steps < all.length ? all.slice(steps, steps + 1) : all).every(({ target }) => target === project.deployPath)
  const possible = undoable.filter(({ placed }) => foreign < placed - 1).map((_, at) => at + 1)
  const steps = possible.reverse().find(isHere) ?? 0
  const live =
    undoable.length === 0 || !isHere(0) || !isHere(1) || foreign >= (last as Placement).placed
      ? undefined
      : findDeployment(store, (last as Placement).id)
  return {
    undo: live === undefined ? null : { deployId: live.id, message: live.message },
    exactBackTo: steps === 0 ? null : { deployId: all[steps]?.id ?? null, steps }
  }
}

function hasContents(files: DeployFiles, id: string, beforeFrom: readonly string[] | null): boolean {
  return (
    beforeFrom?.every(source => {
      if (source === 'none') return false
      return source === 'before' ? existsSync(files.before(id)) : files.packs.has(source)
    }) === true && files.packs.has(id)
  )
}

function nothingToUndo({ name }: Project): Refusal {
  return new Refusal(
    'conflict',
    'nothing_to_undo',
    `Nothing to undo: no deployment of "${name}" has changed its target`
  )
}

function undoOutdated(undoOf: string, lastId: string): Refusal {
  const sentence = `Cannot undo ${undoOf}: deployment ${lastId} was made in the meantime`
  return new Refusal('conflict', 'undo_outdated', sentence)
}

function foreignChange(): Refusal {
  const sentence =
    'Cannot go back exactly: an import restored files in the target since. "svc rollback --overlay" puts the files ' +
    'of an archive over the others'
  return new Refusal('conflict', 'foreign_change', sentence)
}
