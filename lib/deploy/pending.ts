/*
 * Deployments whose files and records do not agree for a moment.
 *
 * Files are made before their record, and removed after it. A kill in between leaves files that no record names. A start
 * must not remove every such file: after a loss of the database, the archives may be all there is. So the intent comes
 * first, as `tmp/<random>.pending`: the number of the last durable write of the database, then the ids, one a line.
 * A start removes the files of those ids that have no record. It does so only if the database has that write: a new
 * database, or an older copy, says nothing about these files, and they stay.
 */
import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Store } from '../store/database.js'
import { findDeployment } from '../store/tables/deployments.js'
import { makeDirectories, type DeployFiles } from './files.js'
import type { DeployNeeds } from './needs.js'

/** Names of the lists, in `tmp/`. */
export const pendingPattern = /^[\w-]{43}\.pending$/
const idPattern = /^dep_[a-z2-7]{16}$/

export interface Pending {
  /**
   * Notes deployments before their files are made or their records removed. If that cannot be written, a kill may leave files
   * without a record: rejects if `isRequired`, else goes on.
   */
  note(deployIds: readonly string[], options?: { isRequired?: boolean }): Promise<Note>
  /** Whether the files of this deployment are being made or removed by this process. */
  has(deployId: string): boolean
}

export interface Note {
  /** The records are durable: the files stay. Never rejects. */
  settle(): Promise<void>
  /**
   * There are no records of the noted deployments, or of these: removes the files. Never rejects: what cannot be removed
   * is logged, and the next start tries again.
   */
  removeFiles(deployIds?: readonly string[]): Promise<void>
}

/** The lists of this process. */
export function createPending(
  { store, home, ids, log, files }: Pick<DeployNeeds, 'store' | 'home' | 'ids' | 'log'> & { files: DeployFiles }
): Pending {
  const noted = new Map<string, number>()
  const count = (deployIds: readonly string[], by: 1 | -1): void => {
    for (const id of deployIds) {
      const now = (noted.get(id) ?? 0) + by
      if (now > 0) noted.set(id, now)
      else noted.delete(id)
    }
  }
  return {
    async note(deployIds, { isRequired = false } = {}) {
      const path = join(home.tmp, `${ids.token()}.pending`)
      count(deployIds, 1)
      try {
        await makeDirectories(home)
        await writeFile(path, [store.sequence(), ...deployIds, ''].join('\n'), { flag: 'wx', mode: 0o600 })
      } catch (error) {
        if (isRequired) {
          count(deployIds, -1)
          await rm(path, { force: true }).catch(() => {})
          throw error
        }
        log('Files without a record would stay after a kill', error)
      }
      const end = async (work: () => Promise<unknown>): Promise<void> => {
        try {
          await work()
          await rm(path, { force: true })
        } catch (error) {
          log('Files could not be removed: the next start tries again', error)
        }
        count(deployIds, -1)
      }
      return {
        settle: () => end(async () => {}),
        removeFiles: (without = deployIds) => end(async () => {
          for (const id of without) await files.remove(id)
        })
      }
    },
    has: deployId => noted.has(deployId)
  }
}

/**
 * Removes the files that a list of an earlier process leaves without a record, then the list. Returns the deployments
 * whose files were there.
 */
export async function settleEarlier(path: string, { store, files }: { store: Store; files: DeployFiles }): Promise<string[]> {
  const [sequence, ...lines] = (await readFile(path, 'utf8')).split('\n')
  const isOfThisDatabase = /^\d+$/.test(sequence ?? '') && store.sequence() >= Number(sequence)
  // A torn last line is no id.
  const ids = isOfThisDatabase ? lines.filter(line => idPattern.test(line) && findDeployment(store, line) === undefined) : []
  const removed: string[] = []
  for (const id of ids) if (await files.remove(id)) removed.push(id)
  await rm(path, { force: true })
  return removed
}
