/*
 * The way back to an earlier state of a target, exactly: what has to be brought back, and what has to be removed.
 *
 * It is the fold of the manifests of the deployments that are undone, newest to oldest: for each path, the oldest one
 * says what the target contained before all of them. That is compared with the owned tree, which is its state now. A path
 * that is the same in both needs nothing. The manifests are read as sorted streams, so only the differences are in
 * memory.
 *
 * Exact means: the same set of paths, their types, bytes, permission bits, groups if a policy sets them, and modification
 * times to the microsecond.
 */

import { existsSync } from 'node:fs'
import { Refusal } from '../base/errors.js'
import { directoryMode, isDirectory } from '../core/install/owned-tree.js'
import type { WantedEntry } from '../core/install/ownership.js'
import {
  type EarlierFile,
  type KeptContents,
  type ManifestLine,
  type OwnedEntry,
  pathOfLine,
  type ScriptedLine
} from '../model/manifest.js'
import { compareTreePaths } from '../base/shared/tree-text.js'
import { readScripted } from '../core/install/scripted-file.js'
import { readReceipt } from '../core/proof/receipt.js'
import type { Reader } from '../core/store/database.js'
import { findReceipt } from '../core/store/tables/receipts.js'
import type { ReceiptFiles } from '../model/receipt.js'
import type { DeployFiles } from './files.js'

/** Where the contents of an entry are. */
export interface ContentSource {
  kind: 'archive' | 'before' | 'scripted'
  deployId: string
}

/** An entry to be brought back; the source of a directory is null. */
export interface WantedFrom extends WantedEntry {
  source: ContentSource | null
}

/** The way back to an earlier state. */
export interface ExactState {
  /** In canonical order. */
  wanted: WantedFrom[]
  /** The owned files to be removed, in canonical order. */
  removed: string[]
  /** Directories to be removed if they are empty then. */
  directories: string[]
}

/** A deployment that is undone. */
export interface Undone {
  id: string
  /** Yields the lines of its manifest in canonical order. */
  lines(): AsyncIterable<ManifestLine>
}

/** What was at a path before a deployment: an entry, or nothing. */
interface Earlier {
  path: string
  before: EarlierFile | null
  /** The deployment whose manifest says so. */
  deployId: string
  /** The SHA-256 of what the deployment put there; null if it removed the entry. */
  placedSha256: string | null
  /** The group of the entry; null: that of the process. Undefined: that of the entry that is there now. */
  group: number | null | undefined
  /** The lines of the first and of the last of the deployments that have one. */
  newest: NamedLine
  oldest: NamedLine
}

const typeBits = 0o170000
/** Times that differ by less than this are the same. */
const sameTimeMs = 0.001

/**
 * Returns the way back over these deployments, which are in the order from new to old. `owned` yields the whole owned
 * tree, with directories. `upToGoal` are the deployments up to the goal, in the order from old to new: what they put
 * into the target counts, not what somebody made of it before the next deployment. Refuses (`conflict`, not_exact) contents
 * or times that were not kept, and a manifest that contradicts the others or the owned tree: it may be that of another
 * deployment.
 */
export async function exactStateOf(
  undone: readonly Undone[],
  owned: AsyncIterable<OwnedEntry>,
  upToGoal: readonly Undone[] = []
): Promise<ExactState> {
  const state: ExactState = { wanted: [], removed: [], directories: [] }
  const [earlier, now] = [earliestOf(undone)[Symbol.asyncIterator](), owned[Symbol.asyncIterator]()]
  const goal = lastLinesOf(upToGoal)[Symbol.asyncIterator]()
  const ids = new Set(undone.map(({ id }) => id))
  try {
    let known = await now.next()
    let own = await goal.next()
    for (let next = await earlier.next(); !next.done; next = await earlier.next()) {
      const { path } = next.value
      for (; !known.done && compareTreePaths(known.value.path, path) < 0; known = await now.next())
        checkOwned(known.value, null, ids)
      while (!own.done && compareTreePaths(pathOfLine(own.value.line), path) < 0) own = await goal.next()
      const isOwn = !own.done && pathOfLine(own.value.line) === path
      const was = isOwn ? asPlaced(next.value, own.value) : next.value
      const there = !known.done && known.value.path === path ? known.value : null
      if (there !== null) checkOwned(there, next.value.newest, ids)
      if (isOwn) checkOlder(next.value.oldest, own.value)
      decide(was, there, state)
      if (there !== null) known = await now.next()
    }
    for (; !known.done; known = await now.next()) checkOwned(known.value, null, ids)
  } finally {
    await earlier.return?.(undefined)
    await now.return?.(undefined)
    await goal.return?.(undefined)
  }
  return state
}

/** Returns the entry as the goal left it, whatever somebody made of it before the next deployment. */
function asPlaced(earlier: Earlier, { line, deployId }: LastLine): Earlier {
  if (!('path' in line)) return earlier
  const { mode, size, sha256, mtimeMs, gid } = line
  if (mtimeMs === undefined || mtimeMs === null) return earlier
  const { before: found } = earlier
  const isKept = found !== null && found.sha256 === sha256 && (found.mode & typeBits) === (mode & typeBits)
  const before: EarlierFile = isKept
    ? { ...found, mode, mtimeMs }
    : { mode, size, sha256, mtimeMs, kept: `archive:${deployId}` }
  return { ...earlier, before, group: gid === undefined ? earlier.group : gid }
}

function decide(earlier: Earlier, known: OwnedEntry | null, { wanted, removed, directories }: ExactState): void {
  const { path, before } = earlier
  if (before === null) {
    if (known !== null) (isDirectory(known) ? directories : removed).push(path)
    return
  }
  const { mode, size, sha256 } = before
  const { group = known?.gid } = earlier
  const owned = group === undefined ? {} : { gid: group }
  if ((before.mode & typeBits) === directoryMode) {
    const isThere = known !== null && isDirectory(known)
    if (!isThere) wanted.push({ path, mode, size: 0, sha256, mtimeMs: null, source: null, ...owned })
    return
  }
  if (before.mtimeMs === undefined) throw notExact(earlier, 'its records are those of an earlier version of svc')
  const isSame =
    known !== null &&
    known.sha256 === sha256 &&
    known.mode === mode &&
    known.gid === (group ?? undefined) &&
    known.mtimeMs !== null &&
    Math.abs(known.mtimeMs - before.mtimeMs) < sameTimeMs
  if (isSame) return
  const { mtimeMs, owner } = before
  const entry = { path, mode, size, sha256, mtimeMs, ...owned, ...(owner !== undefined && { owner }) }
  wanted.push({ ...entry, source: sourceOf(earlier, before) })
}

function sourceOf(earlier: Earlier, { sha256, kept }: EarlierFile): ContentSource {
  const own: ContentSource = { kind: 'archive', deployId: earlier.deployId }
  if (kept === undefined) {
    if (sha256 === earlier.placedSha256) return own
    throw notExact(earlier, 'its records are those of an earlier version of svc')
  }
  if (kept === 'none') throw notExact(earlier, `the earlier contents of "${earlier.path}" were too large to be kept`)
  return kept === 'before' ? { ...own, kind: 'before' } : { ...own, deployId: archiveOf(kept) }
}

function archiveOf(kept: Exclude<KeptContents, 'before' | 'none'>): string {
  return kept.slice('archive:'.length)
}

function notExact({ deployId }: Earlier, why: string): Refusal {
  return notExactRefusal(deployId, why)
}

/** Returns the 409 for a deployment that cannot be undone exactly. `why` is the end of a sentence. */
export function notExactRefusal(deployId: string, why: string): Refusal {
  const sentence =
    `Cannot go back exactly: the changes of deployment ${deployId} cannot be undone, because ${why}. ` +
    '"svc rollback --overlay" puts the files of an archive over the others'
  return new Refusal('conflict', 'not_exact', sentence)
}

/** Returns what the receipt of a deployment says about its manifest; null: this server made none. */
export function filesOfReceipt(db: Reader, deployId: string): ReceiptFiles | null {
  const receipt = findReceipt(db, deployId)
  return receipt == null || receipt.isImported ? null : readReceipt(receipt.text).receipt.files
}

/* Manifests that belong together agree about each path. One that was exchanged does not. */

/** A line, and the deployment whose manifest has it. */
interface NamedLine {
  line: ManifestLine
  deployId: string
}

/** Refuses an entry of the owned tree that is not what the newest of the undone deployments says, which put it there. */
function checkOwned(entry: OwnedEntry, newest: NamedLine | null, ids: ReadonlySet<string>): void {
  const { path, since, sha256 } = entry
  if (!ids.has(since) || isDirectory(entry)) return
  const isIt = newest?.deployId === since && 'path' in newest.line && newest.line.sha256 === sha256
  if (!isIt) throw notExactRefusal(since, `its list of files contradicts what svc owns at "${path}"`)
}

/** Refuses what a deployment found if that came from an older one, which does not say the same. */
function checkOlder({ line: { before }, ...newer }: NamedLine, older: NamedLine): void {
  if (before?.kept !== `archive:${older.deployId}`) return
  const { line } = older
  if ('path' in line && line.sha256 === before.sha256) return
  const why = `its list of files contradicts that of ${newer.deployId} at "${pathOfLine(line)}"`
  throw notExactRefusal(older.deployId, why)
}

/** Yields what was at each path before all of these deployments, in canonical order. */
async function* earliestOf(undone: readonly Undone[]): AsyncGenerator<Earlier> {
  for await (const last of lastLinesOf(undone)) yield earlierOf(last)
}

/** A line about a path. */
interface LastLine extends NamedLine {
  /** The line of the first of the deployments that has one. */
  first: NamedLine
  /** The group before the first deployment that changed it; null: that of the process; undefined: none did. */
  group: number | null | undefined
}

/** Yields for each path the line of the last of these deployments that has one, in canonical order. */
async function* lastLinesOf(undone: readonly Undone[]): AsyncGenerator<LastLine> {
  const heads: Array<{ stream: AsyncIterator<ManifestLine>; id: string; line: ManifestLine }> = []
  try {
    for (const { id, lines } of undone) {
      const stream = lines()[Symbol.asyncIterator]()
      const first = await stream.next()
      if (!first.done) heads.push({ stream, id, line: first.value })
    }
    while (heads.length > 0) {
      const path = heads.map(({ line }) => pathOfLine(line)).reduce((a, b) => (compareTreePaths(a, b) <= 0 ? a : b))
      let last = null as LastLine | null
      let group: LastLine['group']
      for (const head of [...heads]) {
        if (pathOfLine(head.line) !== path) continue
        group = groupBefore(head.line, group)
        const named = { line: head.line, deployId: head.id }
        // The deployments are in either order.
        if (last !== null) checkOlder(last, named)
        if (last !== null) checkOlder(named, last)
        last = { ...named, first: last?.first ?? named, group }
        const next = await head.stream.next()
        if (next.done) heads.splice(heads.indexOf(head), 1)
        else head.line = next.value
      }
      if (last !== null) yield last
    }
  } finally {
    for (const { stream } of heads) await stream.return?.()
  }
}

/** Returns the group before a deployment, given that before the next one. */
function groupBefore({ before, ...line }: ManifestLine, next: LastLine['group']): LastLine['group'] {
  if (before == null) return next
  // A file that replaced another one has the same group, unless the line says otherwise.
  const isReplaced = 'path' in line && (before.mode & typeBits) !== directoryMode
  return before.owner?.gid ?? before.gid ?? (isReplaced ? next : null)
}

function earlierOf({ line, first, ...last }: LastLine): Earlier {
  const lines = { newest: first, oldest: { line, deployId: last.deployId } }
  if ('removed' in line) return { path: line.removed, before: line.before, placedSha256: null, ...last, ...lines }
  if ('made' in line) return { path: line.made, before: line.before ?? null, placedSha256: null, ...last, ...lines }
  return { path: line.path, before: line.before, placedSha256: line.sha256, ...last, ...lines }
}

/* Where the contents of earlier files are. */

/** Returns the path of the zip that contains an entry. */
export function pathOfSource(files: DeployFiles, { kind, deployId }: ContentSource): string {
  if (kind === 'scripted') return files.scriptedImages(deployId)
  return kind === 'archive' ? files.archive(deployId) : files.before(deployId)
}

/** Whether the zip that contains an entry is kept. An archive that shares contents has no zip of its own. */
export function hasSource(files: DeployFiles, source: ContentSource): boolean {
  return source.kind === 'archive' ? files.packs.has(source.deployId) : existsSync(pathOfSource(files, source))
}

/**
 * Finds the contents that scripts have made: the archive of their deployment has other ones. Changes the sources of these
 * entries; `onNone` gets one whose contents were too large to be kept, and throws.
 */
export async function findScripted(
  files: DeployFiles,
  wanted: readonly WantedFrom[],
  onNone: (entry: WantedFrom, deployId: string) => never
): Promise<void> {
  const known = new Map<string, ReadonlyMap<string, ScriptedLine>>()

  async function linesOf(deployId: string): Promise<ReadonlyMap<string, ScriptedLine>> {
    const lines = known.get(deployId) ?? new Map<string, ScriptedLine>()
    if (known.has(deployId)) return lines
    known.set(deployId, lines)
    for await (const line of readScripted(files.scripted(deployId)))
      (lines as Map<string, ScriptedLine>).set(pathOfLine(line), line)
    return lines
  }

  for (const entry of wanted) {
    // What a script has left as it was may come from a deployment before, and so on.
    for (const seen = new Set<string>(); entry.source?.kind === 'archive' && !seen.has(entry.source.deployId); ) {
      const { deployId } = entry.source
      seen.add(deployId)
      const line = (await linesOf(deployId)).get(entry.path)
      if (line === undefined || !('path' in line) || line.sha256 !== entry.sha256 || line.kept === undefined) break
      if (line.kept === 'none') onNone(entry, deployId)
      if (line.kept === 'scripted') entry.source = { kind: 'scripted', deployId }
      else if (line.kept !== 'before') entry.source = { kind: 'archive', deployId: line.kept.slice('archive:'.length) }
    }
  }
}

/** Returns the refusal while the list of what svc owns is made. */
export function treeNotReady(): Refusal {
  const sentence = 'The list of the files that svc owns in the target is still being made. Try again in a moment'
  return new Refusal('unavailable', 'tree_not_ready', sentence)
}
