/*
 * The thread that folds and checks owned trees. A small task is done without it: starting a thread takes longer.
 * measured: bench/fold
 */
import { stat } from 'node:fs/promises'
import { createWorkerPool } from '../base/workers.js'
import { doFoldTask, type FoldTask, type TornManifest } from './fold.js'

/** Does tasks on owned trees. */
export interface FoldThreads {
  /** Does a task like `doFoldTask`, and throws what that throws. */
  run(task: FoldTask): Promise<TornManifest[]>
  /** Ends idle threads. */
  close(): Promise<void>
}

/** An idle thread ends after this time, which frees its memory. */
const idleMs = 10_000
/** Total size of the files of a task from which a thread does it: about 20 ms of work. */
const defaultThreadBytes = 512 * 1024
/** Young objects of the thread are few and short-lived; the default of 48 MB would only be filled with garbage. */
const maxYoungGenerationSizeMb = 3

/** Creates the thread, which starts when there is work. */
export function createFoldThreads({ threadBytes = defaultThreadBytes } = {}): FoldThreads {
  const pool = createWorkerPool<FoldTask, TornManifest[]>({
    module: new URL('./fold-worker.js', import.meta.url),
    resourceLimits: { maxYoungGenerationSizeMb },
    maxBusy: 1,
    idleMs
  })
  return {
    async run(task) {
      if ((await bytesOf(task)) < threadBytes) return doFoldTask(task)
      return pool.use(thread => thread.ask(task))
    },
    close: () => pool.close()
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
