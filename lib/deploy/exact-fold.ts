/*
 * What a target contained before some deployments, as far as they changed it: the fold of their manifests. At each path
 * the oldest of these deployments knows what was there. Manifests and the owned tree are read side by side, in their
 * common order, so only the differences are in memory.
 */
import { exactTimeMs } from '../install/exact-items.js'
import { isDirectory } from '../install/owned-tree.js'
import type { EarlierFile, ManifestLine } from '../model/manifest.js'
import { pathOfLine } from '../model/manifest.js'
import type { OwnedEntry } from '../model/tree.js'
import { compareTreePaths } from '../shared/tree-text.js'

/** A deployment whose changes are undone. */
export interface Undone {
  id: string
  /** The lines of its manifest, in canonical order. */
  lines(): AsyncIterable<ManifestLine>
}

/** A zip that may contain certain contents: the archive of a deployment, or its before-images. */
export interface Source {
  deployId: string
  kind: 'archive' | 'before'
}

/** An entry that is to be in the target again. */
export interface EarlierEntry extends Omit<EarlierFile, 'kept'> {
  path: string
  /** The deployment that replaced or removed it. */
  changedBy: string
  /** Where its contents may be, the likeliest first; empty for a directory. */
  sources: Source[]
}

/** The differences between an earlier state and what svc owns now. */
export interface EarlierState {
  /** What is to be put back, in canonical order. */
  wanted: EarlierEntry[]
  /** The owned files that are to be removed, in canonical order. */
  removed: string[]
  /** The directories that are to be removed if nothing else is in them. */
  directories: string[]
}

const typeBits = 0o170000
const directoryType = 0o040000
const linkType = 0o120000
const archivePrefix = 'archive:'

/**
 * Returns what must change in a target so that it is as before these deployments, the oldest of which comes first.
 * `owned` are the entries that svc owns now, with directories, in canonical order.
 */
export async function foldBack(undone: readonly Undone[], owned: AsyncIterable<OwnedEntry>): Promise<EarlierState> {
  const state: EarlierState = { wanted: [], removed: [], directories: [] }
  const left = owned[Symbol.asyncIterator]()
  try {
    let own = await left.next()
    for await (const lines of linesByPath(undone)) {
      const path = pathOfLine((lines[0] as Told).line)
      while (!own.done && compareTreePaths(own.value.path, path) < 0) own = await left.next()
      const now = !own.done && own.value.path === path ? own.value : null
      decide(state, path, { lines, now })
    }
  } finally {
    await left.return?.()
  }
  return state
}

/** What a deployment says about a path. */
interface Told {
  id: string
  line: ManifestLine
}

function decide(state: EarlierState, path: string, { lines, now }: { lines: readonly Told[]; now: OwnedEntry | null }) {
  const { id, line } = lines[0] as Told
  const before = 'made' in line ? null : line.before
  if (before === null) {
    if (now !== null && !isDirectory(now)) state.removed.push(path)
    else if ('made' in line || now !== null) state.directories.push(path)
    return
  }
  if (now !== null && isAsBefore(now, before)) return
  const { size, mode, sha256, mtimeMs } = before
  const isFolder = typeOf(before) === directoryType
  const sources = isFolder ? [] : sourcesOf(before, lines, now)
  state.wanted.push({ path, size, mode, sha256, ...(mtimeMs !== undefined && { mtimeMs }), changedBy: id, sources })
}

/** Whether the owned entry is what was there before. The permissions of a directory are not known. */
function isAsBefore(now: OwnedEntry, before: EarlierFile): boolean {
  if (typeOf(now) !== typeOf(before)) return false
  if (typeOf(before) === directoryType) return true
  if (now.sha256 !== before.sha256) return false
  if (typeOf(before) === linkType) return true
  if (now.mode !== before.mode || now.mtimeMs === null || before.mtimeMs === undefined) return false
  return Math.abs(now.mtimeMs - before.mtimeMs) < exactTimeMs
}

/** Returns every zip that has contained these contents at this path. */
function sourcesOf(wanted: EarlierFile, lines: readonly Told[], now: OwnedEntry | null): Source[] {
  const sources = new Map<string, Source>()
  const add = (deployId: string, kind: Source['kind']): void =>
    void sources.set(`${kind} ${deployId}`, { deployId, kind })
  const isSame = (found: Pick<EarlierFile, 'mode' | 'sha256'>): boolean =>
    found.sha256 === wanted.sha256 && typeOf(found) === typeOf(wanted)
  for (const { id, line } of lines) {
    if ('made' in line) continue
    const { before } = line
    if (before !== null && isSame(before)) {
      if (before.kept === 'before') add(id, 'before')
      else if (before.kept?.startsWith(archivePrefix)) add(before.kept.slice(archivePrefix.length), 'archive')
    }
    if ('path' in line && isSame(line)) add(id, 'archive')
  }
  if (now !== null && isSame(now)) add(now.since, 'archive')
  return [...sources.values()]
}

function typeOf({ mode }: { mode: number }): number {
  return mode & typeBits
}

/** Yields the lines of all manifests about each path, those of the oldest deployment first, in the order of the paths. */
async function* linesByPath(undone: readonly Undone[]): AsyncGenerator<Told[]> {
  const readers = undone.map(({ id, lines }) => ({ id, lines: lines()[Symbol.asyncIterator]() }))
  try {
    const heads = await Promise.all(readers.map(({ lines }) => lines.next()))
    for (;;) {
      let path: string | null = null
      for (const { done, value } of heads) {
        if (done) continue
        const at = pathOfLine(value)
        if (path === null || compareTreePaths(at, path) < 0) path = at
      }
      if (path === null) return
      const told: Told[] = []
      for (const [index, { id, lines }] of readers.entries()) {
        const head = heads[index] as IteratorResult<ManifestLine>
        if (head.done || pathOfLine(head.value) !== path) continue
        told.push({ id, line: head.value })
        heads[index] = await lines.next()
      }
      yield told
    }
  } finally {
    await Promise.all(readers.map(({ lines }) => lines.return?.()))
  }
}
