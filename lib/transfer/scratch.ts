import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Ids } from '../base/digests.js'

/** Files of one export or import in `tmp/`. All of them are removed at its end, or at the next start after a crash. */
export interface Scratch {
  /** Returns the path of a new file, which does not exist yet. */
  file(): string
  /** Removes all files. */
  discard(): Promise<void>
}

/** Creates `tmp` if it is missing, and returns an empty scratch in it. */
export async function openScratch(tmp: string, ids: Pick<Ids, 'token'>): Promise<Scratch> {
  await mkdir(tmp, { recursive: true, mode: 0o700 })
  const paths: string[] = []
  return {
    file() {
      // The next start removes files with such a name: deploy/files.ts.
      const path = join(tmp, `${ids.token()}.zip`)
      paths.push(path)
      return path
    },
    async discard() {
      // The work is done. The next start removes what could not be removed here.
      await Promise.all(paths.map(path => rm(path, { force: true }).catch(() => {})))
    }
  }
}
