/*
 * Folds manifests into an owned tree, and checks a tree. Both read and write whole files, line by line, which takes
 * about 6 us of processor time per line: a thread does it if there are many.
 */

import { existsSync } from 'node:fs'
import { stat } from 'node:fs/promises'
import { Refusal } from '../../base/errors.js'
import { type ManifestLine, type OwnedEntry, pathOfLine } from '../../model/manifest.js'
import { compareTreePaths } from '../../base/shared/tree-text.js'
import { createWorkerPool } from '../../base/workers.js'
import { readManifestLines } from './manifest.js'
import { readScripted, withScripted } from './scripted-file.js'
import { foldManifest, type OwnedHead, type TimedLine, readOwnedEntries, writeOwnedTree } from './owned-tree.js'

/** A manifest to fold. */
export interface FoldedManifest {
  path: string
  /** The path of what the scripts of the deployment changed (scripted-file.ts); absent: nothing. */
  scripted?: string
  deployId: string
  /** Number of files that it must contain at least. */
  fileCount: number
  /** The times of the last changes of its files, in its order (`changeTimes`); absent: none is known. */
  ctimes?: Float64Array | undefined
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
  { path, deployId, fileCount, ctimes }: FoldedManifest,
  torn: TornManifest[]
): AsyncGenerator<TimedLine> {
  if (!existsSync(path)) return
  const older: ManifestLine[] = []
  let file = 0
  try {
    for await (const line of readManifestLines(path, fileCount)) {
      // Manifests of earlier versions have another order and no times.
      const ctimeMs = 'path' in line ? (ctimes?.[file++] ?? Number.NaN) : Number.NaN
      if ('path' in line && line.mtimeMs === undefined) older.push(line)
      else yield Number.isNaN(ctimeMs) ? line : { ...line, ctimeMs }
    }
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    torn.push({ deployId, reason: error.message })
  }
  yield* older.sort((a, b) => compareTreePaths(pathOfLine(a), pathOfLine(b)))
}

/*
 * The thread that folds and checks owned trees. A small task is done without it: starting a thread takes longer.
 * measured: bench/fold
 */

/** Does tasks on owned trees. */
export type FoldThreads = ReturnType<typeof createFoldThreads>

/** An idle thread ends after this time, which frees its memory. */
const idleMs = 10_000
/** Total size of the files of a task from which a thread does it: about 20 ms of work. */
const defaultThreadBytes = 512 * 1024
/** Young objects of the thread are few and short-lived; the default of 48 MB would only be filled with garbage. */
const maxYoungGenerationSizeMb = 3

/** Creates the thread, which starts when there is work. */
export function createFoldThreads({ threadBytes = defaultThreadBytes } = {}) {
  const pool = createWorkerPool<FoldTask, TornManifest[]>({
    module: new URL('./fold-worker.js', import.meta.url),
    resourceLimits: { maxYoungGenerationSizeMb },
    maxBusy: 1,
    idleMs
  })
  return {
    /** Does a task like `doFoldTask`, and throws what that throws. */
    async run(task: FoldTask): Promise<TornManifest[]> {
      if ((await bytesOf(task)) < threadBytes) return doFoldTask(task)
      return pool.use(thread => thread.ask(task))
    },

    /** Ends idle threads. */
    close: (): Promise<void> => pool.close()
  }
}

async function bytesOf(task: FoldTask): Promise<number> {
  const manifests = task.kind === 'fold' ? task.manifests : []
  const paths = [task.path, ...manifests.map(({ path }) => path)]
  const sizes = await Promise.all(
    paths.map(path =>
      stat(path).then(
        ({ size }) => size,
        () => 0
      )
    )
  )
  return sizes.reduce((sum, size) => sum + size, 0)
}
