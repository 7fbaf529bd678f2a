/*
 * Deployments whose files and records are temporarily inconsistent.
 *
 * Files are created before their record and removed after it. If svc is killed in between, files without a record
 * remain. A start must not remove every such file: after a loss of the database, the archives may be the only copy. So
 * the intent is written first, as `tmp/<random>.pending`: the number of the last durable write of the database, then
 * the ids, one per line. A start removes the files of those ids that have no record, but only if the database contains
 * that write. A new database, or an older copy, proves nothing about these files, and they stay.
 */
import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Store } from '../store/database.js'
import { findDeployment } from '../store/tables/deployments.js'
import { makeDirectories, type DeployFiles } from './files.js'
import type { DeployNeeds } from './needs.js'

/** Pattern of the lists' names in `tmp/`. */
export const pendingPattern = /^[\w-]{43}\.pending$/
const idPattern = /^dep_[a-z2-7]{16}$/

/** Lists of deployments whose files are being created or removed. */
export interface Pending {
  /**
   * Lists deployments before their files are created or their records removed. If the list cannot be written, this
   * rejects if `isRequired`. Otherwise it logs the error and continues: after a kill, files without a record may
   * remain.
   */
  note(deployIds: readonly string[], options?: { isRequired?: boolean }): Promise<Note>
  /** Whether this process is creating or removing the files of this deployment. */
  has(deployId: string): boolean
}

/** One list of pending deployments. Exactly one of the functions must be called. */
export interface Note {
  /** Deletes the list and keeps the files: their records are durable. Never rejects. */
  settle(): Promise<void>
  /**
   * Removes the files of the listed deployments, or only of `deployIds`, then the list. Call it if they have no
   * records. Never rejects: errors are logged, and the next start tries again.
   */
  removeFiles(deployIds?: readonly string[]): Promise<void>
}

/** Creates the pending lists of this process. */
export function createPending({
  store,
  home,
  ids,
  log,
  files
}: Pick<DeployNeeds, 'store' | 'home' | 'ids' | 'log'> & { files: DeployFiles }): Pending {
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
        log(
          'Cannot write the list of pending deployments: if the server is killed now, files without a record remain',
          error
        )
      }
      const end = async (work: () => Promise<unknown>): Promise<void> => {
        try {
          await work()
          await rm(path, { force: true })
        } catch (error) {
          log('Cannot remove files of deployments: the next start tries again', error)
        }
        count(deployIds, -1)
      }
      return {
        settle: () => end(async () => {}),
        removeFiles: (without = deployIds) =>
          end(async () => {
            for (const id of without) await files.remove(id)
          })
      }
    },
    has: deployId => noted.has(deployId)
  }
}

/**
 * Removes the files without a record that a list of an earlier process names, then the list. Returns the deployments
 * whose files were removed.
 */
export async function settleEarlier(
  path: string,
  { store, files }: { store: Store; files: DeployFiles }
): Promise<string[]> {
  const [sequence, ...lines] = (await readFile(path, 'utf8')).split('\n')
  const isOfThisDatabase = /^\d+$/.test(sequence ?? '') && store.sequence() >= Number(sequence)
  // A last line cut off by a crash is not a valid id.
  const ids = isOfThisDatabase
    ? lines.filter(line => idPattern.test(line) && findDeployment(store, line) === undefined)
    : []
  const removed: string[] = []
  for (const id of ids) if (await files.remove(id)) removed.push(id)
  await rm(path, { force: true })
  return removed
}
