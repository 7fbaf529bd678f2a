/* A helper process that looks into the target of a project with a user of its own; targets.ts starts it. */
import type { FileHandle } from 'node:fs/promises'
import { serveHelper } from '../proc/helper-process.js'
import { listDirectory, openFile } from '../target/browse.js'
import { measureTree } from '../target/tree-size.js'

export type TargetJob =
  | { do: 'list'; target: string; path: string }
  | { do: 'open'; target: string; path: string }
  /** Each target in turn, while the time lasts. */
  | { do: 'measure'; targets: string[]; maxEntries: number; forMs: number }

/** A file that the process has opened and holds until it is let go. */
export interface HeldFile {
  fd: number
  dev: number
  ino: number
  path: string
  name: string
  size: number
  mtimeMs: number
}

/** Node closes a file that nothing refers to. */
let held: FileHandle | undefined

serveHelper(async (job: TargetJob): Promise<unknown> => {
  switch (job.do) {
    case 'list': return listDirectory(job.target, job.path)
    case 'open': return hold(job.target, job.path)
    case 'measure': {
      const deadlineMs = performance.now() + job.forMs
      const sizes: Array<number | null> = []
      for (const target of job.targets) sizes.push(await measureTree(target, { maxEntries: job.maxEntries, deadlineMs }))
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
