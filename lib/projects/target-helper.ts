/* Helper process that reads the target of a project with the rights of the project's own user. targets.ts starts it. */
import type { FileHandle } from 'node:fs/promises'
import { serveHelper } from '../core/proc/helper-process.js'
import { listDirectory, measureTree, openFile } from '../core/install/browse.js'

/** A request to the helper process. */
export type TargetJob =
  | { do: 'list'; target: string; path: string }
  | { do: 'open'; target: string; path: string }
  /** Measures the targets one after the other until `forMs` has passed. */
  | { do: 'measure'; targets: string[]; maxEntries: number; forMs: number }

/** Keeps the open file referenced: Node closes a file handle that is garbage collected. */
let held: FileHandle | undefined

serveHelper(async (job: TargetJob): Promise<unknown> => {
  switch (job.do) {
    case 'list':
      return listDirectory(job.target, job.path)
    case 'open':
      held = (await openFile(job.target, job.path)).handle
      return held.fd
    case 'measure': {
      const deadlineMs = performance.now() + job.forMs
      const sizes: Array<number | null> = []
      for (const target of job.targets)
        sizes.push(await measureTree(target, { maxEntries: job.maxEntries, deadlineMs }))
      return sizes
    }
  }
})
