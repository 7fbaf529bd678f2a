/*
 * The change of a target back to an earlier state: its entries are copied from kept archives and before-images into the
 * archive of a new deployment, which then runs like any other. So the archive of every deployment contains what it put
 * in place, and an undo can be undone.
 */
import { existsSync } from 'node:fs'
import { countOf } from '../base/count.js'
import { oneLine } from '../base/one-line.js'
import { Refusal } from '../base/refusal.js'
import { hasCode } from '../base/system-error.js'
import { composeArchive, type ComposedEntry } from '../archive/compose.js'
import type { ArchiveLimits } from '../archive/read.js'
import { readManifestLines } from '../install/manifest.js'
import { readOwnedEntries } from '../install/owned-tree.js'
import type { WantedEntry } from '../install/ownership.js'
import type { Extracted } from '../install/unpack/extraction.js'
import { extractionLimits } from '../install/unpack/extract.js'
import type { DeploymentRow } from '../model/deployment.js'
import type { ManifestLine } from '../model/manifest.js'
import type { Project } from '../model/project.js'
import { updateDeployment } from '../store/tables/deployments.js'
import type { Placement } from '../store/tables/placements.js'
import { foldBack, type EarlierEntry, type EarlierState, type Source } from './exact-fold.js'
import { findWayBack, isArchiveKept, notExact, type Goal, type WayBack } from './exact.js'
import type { DeployFiles } from './files.js'
import type { DeployNeeds } from './needs.js'
import { longWaitMs, notReady, type ExactChange } from './ownership.js'
import type { Trees } from './trees.js'

/** An exact rollback or an undo as requested. */
export interface ExactOrder {
  goal: Goal
  /** Whether files that were edited since are taken back, too. */
  force: boolean
}

/** What finding the change needs. */
export interface ExactNeeds extends Pick<DeployNeeds, 'store' | 'settings'> {
  files: DeployFiles
  trees: Pick<Trees, 'read'>
}

/** What must change in a target, and where the contents are. */
export interface ExactState extends EarlierState {
  way: WayBack
  /** The entries of the archive, in canonical order. */
  entries: ComposedEntry[]
}

/**
 * Returns what must change in the target of a project to reach a goal. Refuses (`conflict`): not_exact, foreign_change,
 * plan_outdated; (`unavailable`) tree_not_ready.
 */
export async function exactState(needs: ExactNeeds, project: Project, goal: Goal): Promise<ExactState> {
  const way = findWayBack(needs, project, goal)
  const owned = await needs.trees.read(project.id, longWaitMs)
  if (owned.baseline === 'building') throw notReady()
  const tree = owned.baseline === 'owned' ? await owned.contents() : null
  const undone = way.undone.map(change => ({ id: change.id, lines: () => manifestOf(needs, change, goal) }))
  const state = await foldBack(undone, tree === null ? noEntries() : readOwnedEntries(tree))
  const find = createFinder(needs, goal)
  return { ...state, way, entries: state.wanted.map(entry => composedOf(entry, find)) }
}

async function* noEntries(): AsyncGenerator<never> {}

/** Yields the lines of a manifest. Refuses (`conflict`, not_exact) one that is gone or torn, or lacks times. */
async function* manifestOf({ files }: ExactNeeds, change: Placement, goal: Goal): AsyncGenerator<ManifestLine> {
  const { id, fileCount } = change
  try {
    for await (const line of readManifestLines(files.manifest(id), fileCount ?? 0)) {
      if (!hasTimes(line)) throw notExact(goal, `deployment ${id} was made by a version of svc that did not keep times`)
      yield line
    }
  } catch (error) {
    if (hasCode(error, 'ENOENT')) throw notExact(goal, `the file list of deployment ${id} is gone`)
    if (!(error instanceof Refusal) || error.code === 'not_exact') throw error
    throw notExact(goal, `the file list of deployment ${id} is damaged`)
  }
}

function hasTimes(line: ManifestLine): boolean {
  if ('made' in line) return true
  if ('path' in line && line.mtimeMs === undefined) return false
  return line.before === null || line.before.mtimeMs !== undefined
}

/** Returns the function that finds the zip with the contents of an entry. */
function createFinder(needs: ExactNeeds, goal: Goal): (entry: EarlierEntry) => string {
  const { files } = needs
  const found = new Map<string, boolean>()
  const isKept = ({ deployId, kind }: Source): boolean => {
    const key = `${kind} ${deployId}`
    const known =
      found.get(key) ?? (kind === 'before' ? existsSync(files.before(deployId)) : isArchiveKept(needs, deployId))
    found.set(key, known)
    return known
  }
  return ({ path, changedBy, sources }) => {
    const source = sources.find(isKept)
    if (source !== undefined)
      return source.kind === 'before' ? files.before(source.deployId) : files.archive(source.deployId)
    throw notExact(goal, whyGone(path, changedBy, sources[0]))
  }
}

function whyGone(path: string, changedBy: string, source: Source | undefined): string {
  const name = `"${oneLine(path)}"`
  if (source === undefined) return `the contents of ${name} that deployment ${changedBy} replaced were not kept`
  const what = source.kind === 'before' ? 'the copy of what' : 'the archive of'
  const end = source.kind === 'before' ? ' replaced' : ''
  return `${what} deployment ${source.deployId}${end}, which contains ${name}, has been removed`
}

const typeBits = 0o170000
const directoryType = 0o040000

function composedOf(entry: EarlierEntry, find: (entry: EarlierEntry) => string): ComposedEntry {
  const { path, mode, size, mtimeMs } = entry
  if ((mode & typeBits) === directoryType) return { path, mode, size: 0, mtimeMs: null, source: null }
  return { path, mode, size, mtimeMs: mtimeMs as number, source: find(entry) }
}

/** A change whose archive is written. */
export interface PreparedExact {
  way: WayBack
  change: ExactChange
  limits: ArchiveLimits
}

/**
 * Writes the archive of an exact change, and records it. Refuses what `exactState` refuses, and (`invalid`,
 * damaged_archive) contents that are not where they should be.
 */
export async function prepareExact(
  needs: ExactNeeds & Pick<DeployNeeds, 'quota'>,
  { goal, force }: ExactOrder,
  { project, row, signal }: { project: Project; row: DeploymentRow; signal: AbortSignal }
): Promise<PreparedExact> {
  const state = await exactState(needs, project, goal)
  // Whatever the settings say now: all of it was in the target before.
  const limits = { ...extractionLimits(needs.settings), maxExtractedBytes: Number.MAX_SAFE_INTEGER, mayBeEmpty: true }
  const composed = await composeArchive(needs.files.archive(row.id), state.entries, { limits, signal }).catch(error => {
    throw hasCode(error, 'ENOENT') ? notExact(goal, 'an archive was removed in the meantime') : error
  })
  // Before the files are in place: without this record, a start after a crash would remove the archive.
  const stored = { hasArtifact: true, archiveBytes: composed.bytes, archiveSha256: composed.sha256 }
  await needs.store.write(tx => updateDeployment(tx, row.id, stored))
  Object.assign(row, stored)
  needs.quota.changed(project.id, composed.bytes)
  return { way: state.way, limits, change: changeOf(state, force) }
}

function changeOf({ wanted, removed, directories }: ExactState, force: boolean): ExactChange {
  return {
    exact: { wanted: bytesOf(wanted.map(wantedLine)), directories: bytesOf(directories) },
    removes: { kind: 'listed', paths: bytesOf(removed) },
    edited: force ? 'warn' : 'keep'
  }
}

function wantedLine({ path, mode, size, sha256, mtimeMs }: EarlierEntry): string {
  const isDirectory = (mode & typeBits) === directoryType
  const entry: WantedEntry = { path, mode, size, sha256, mtimeMs: isDirectory ? null : (mtimeMs as number) }
  return JSON.stringify(entry)
}

/** Returns lines as bytes. */
export function bytesOf(lines: readonly string[]): Uint8Array {
  return new TextEncoder().encode(lines.map(line => `${line}\n`).join(''))
}

const maxNamed = 3

/** Returns the line of the output that says what an exact change did. */
export function lineOfExact(
  { goal, undone }: WayBack,
  { fileCount, removedCount, kept }: Pick<Extracted, 'fileCount' | 'removedCount' | 'kept'>
): string {
  const where = goal.undoOf === null ? `exactly to ${goal.to}` : `exactly as before ${goal.undoOf}`
  const parts = [`brings back ${countOf(fileCount, 'file')}`, `removes ${removedCount}`]
  if (kept !== null && kept.count > 0) {
    const names = kept.files.slice(0, maxNamed).map(({ path }) => oneLine(path))
    const more = kept.count > names.length ? ', …' : ''
    parts.push(`keeps ${kept.count} edited: ${names.join(', ')}${more}`)
  }
  return `→ ${where}, over ${countOf(undone.length, 'deployment')}: ${parts.join(', ')}`
}
