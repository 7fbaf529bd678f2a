/*
 * Folds manifests into an owned tree, and checks a tree. Both read and write whole files, line by line, which takes
 * about 6 us of processor time per line: fold-threads.ts does it in a thread if there are many.
 */
import { existsSync } from 'node:fs'
import { Refusal } from '../base/errors.js'
import { pathOfLine, type ManifestLine } from '../model/manifest.js'
import type { OwnedEntry } from '../model/tree.js'
import { compareTreePaths } from '../shared/tree-text.js'
import { readManifestLines } from './manifest.js'
import { readScripted, withScripted } from './scripted-file.js'
import { foldManifest, readOwnedEntries, writeOwnedTree, type OwnedHead } from './owned-tree.js'

/** A manifest to fold. */
export interface FoldedManifest {
  path: string
  /** The path of what the scripts of the deployment changed (scripted-file.ts); absent: nothing. */
  scripted?: string
  deployId: string
  /** Number of files that it must contain at least. */
  fileCount: number
}

/** What to do with a tree, as plain data. */
export type FoldTask =
  | { kind: 'check'; path: string }
  | {
      kind: 'fold'
      path: string
      /** The head of the new tree. */
      head: OwnedHead
      /** Whether the existing tree is ignored. */
      isAnew: boolean
      /** In the order of their deployments. */
      manifests: FoldedManifest[]
    }

/** A manifest that is incomplete. The tree contains what could be read of it. */
export interface TornManifest {
  deployId: string
  reason: string
}

/**
 * Does a task, and returns the torn manifests. If a manifest is lost or torn, the tree lacks files: svc then takes them
 * for files of somebody else. Throws `UnusableTree` if the existing tree is missing or torn.
 */
export async function doFoldTask(task: FoldTask): Promise<TornManifest[]> {
  if (task.kind === 'check') {
    const entries = readOwnedEntries(task.path)
    while (!(await entries.next()).done);
    return []
  }
  const torn: TornManifest[] = []
  let entries: AsyncIterable<OwnedEntry> = task.isAnew ? noEntries() : readOwnedEntries(task.path)
  for (const each of task.manifests) {
    const lines = linesOf(each, torn)
    const all = each.scripted === undefined ? lines : withScripted(lines, readScripted(each.scripted), each.deployId)
    entries = foldManifest(entries, all, each.deployId)
  }
  await writeOwnedTree(task.path, task.head, entries)
  return torn
}

async function* noEntries(): AsyncGenerator<OwnedEntry> {}

/** Yields the lines of a manifest in canonical order. */
async function* linesOf(
  { path, deployId, fileCount }: FoldedManifest,
  torn: TornManifest[]
): AsyncGenerator<ManifestLine> {
  if (!existsSync(path)) return
  const older: ManifestLine[] = []
  try {
    for await (const line of readManifestLines(path, fileCount)) {
      // Manifests of earlier versions have another order and no times.
      if ('path' in line && line.mtimeMs === undefined) older.push(line)
      else yield line
    }
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    torn.push({ deployId, reason: error.message })
  }
  yield* older.sort((a, b) => compareTreePaths(pathOfLine(a), pathOfLine(b)))
}
