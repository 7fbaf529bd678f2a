/* Helper process that reads the target of a project with the rights of the project's own user. targets.ts starts it. */
import type { FileHandle } from 'node:fs/promises'
import { serveHelper } from '../proc/helper-process.js'
import { listDirectory, openFile } from '../install/browse.js'
import { measureTree } from '../install/tree-size.js'

/** A request to the helper process. */
export type TargetJob =
  | { do: 'list'; target: string; path: string }
  | { do: 'open'; target: string; path: string }
  /** Measures the targets one after the other until `forMs` has passed. */
  | { do: 'measure'; targets: string[]; maxEntries: number; forMs: number }

/** A file that the helper process has opened and keeps open. */
export interface HeldFile {
  fd: number
  dev: number
  ino: number
  path: string
  name: string
  size: number
  mtimeMs: number
}

/** Keeps the open file referenced: Node closes a file handle that is garbage collected. */
let held: FileHandle | undefined

serveHelper(async (job: TargetJob): Promise<unknown> => {
  switch (job.do) {
    case 'list':
      return listDirectory(job.target, job.path)
    case 'open':
      return hold(job.target, job.path)
    case 'measure': {
      const deadlineMs = performance.now() + job.forMs
      const sizes: Array<number | null> = []
      for (const target of job.targets)
        sizes.push(await measureTree(target, { maxEntries: job.maxEntries, deadlineMs }))
      return sizes
    }
  }
})

async function hold(target: string, asked: string): Promise<HeldFile> {
  const { handle, ...file } = await openFile(target, asked)
  held = handle
  const { dev, ino } = await held.stat()
  return { ...file, fd: handle.fd, dev, ino }
}
