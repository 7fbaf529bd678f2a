import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Ids } from '../base/ids.js'

/** Files of one export or import in `tmp/`: all of them go at its end, and at the next start if that never comes. */
export interface Scratch {
  /** The path of a new file, which is not there yet. */
  file(): string
  discard(): Promise<void>
}

export async function openScratch(tmp: string, ids: Pick<Ids, 'token'>): Promise<Scratch> {
  await mkdir(tmp, { recursive: true, mode: 0o700 })
  const paths: string[] = []
  return {
    file() {
      // A start removes what has such a name: deploy/files.ts.
      const path = join(tmp, `${ids.token()}.zip`)
      paths.push(path)
      return path
    },
    async discard() {
      // The work is done: what stays, a start removes.
      await Promise.all(paths.map(path => rm(path, { force: true }).catch(() => {})))
    }
  }
}
