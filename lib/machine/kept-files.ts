import type { Stats } from 'node:fs'
import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { ProjectUsage } from '../model/storage.js'
import type { Reader } from '../store/database.js'
import { number, rowReader, text } from '../store/tables/table.js'

/** Number of parallel stat calls. Few, so that other work finds free threads. */
const statsAbreast = 2
const ownersPerPage = 500

/** Stored files of one project. */
export type Kept = Omit<ProjectUsage, 'projectId' | 'deployPathBytes'>

/** A project without stored files. */
export const nothingKept: Kept = { archiveCount: 0, archiveBytes: 0, logBytes: 0 }

/** Sizes of the permanent files of the data directory in bytes, counted on the disk. */
export interface KeptFiles {
  /** Archives and before-images. */
  archives: number
  /** Outputs and manifests. */
  logs: number
  database: number
  projects: Map<string, Kept>
}

/** Counts the permanent files of the data directory. */
export async function measureKept(store: Reader, home: { directory: string; deployments: string }): Promise<KeptFiles> {
  const [files, database] = await Promise.all([
    ownersOf(store).then(owners => measureDeployments(home.deployments, owners)),
    measureFiles(home.directory, name => name.startsWith('svc.db'))
  ])
  return { ...files, database }
}

const readOwner = rowReader('deployments', { position: number, id: text, projectId: text })

/** Returns the project of each deployment. Reads in pages, so that other requests can run in between. */
async function ownersOf(store: Reader): Promise<Map<string, string>> {
  const owners = new Map<string, string>()
  const sql = 'SELECT position, id, projectId FROM deployments WHERE position > ? ORDER BY position LIMIT ?'
  let position = -1
  for (;;) {
    const rows = store.all(sql, position, ownersPerPage).map(readOwner)
    for (const { id, projectId } of rows) owners.set(id, projectId)
    if (rows.length < ownersPerPage) return owners
    position = rows.at(-1)?.position as number
    await nextTurn()
  }
}

/** Counts the files in `deployments/`, in total and by project. */
async function measureDeployments(
  directory: string,
  owners: ReadonlyMap<string, string>
): Promise<Omit<KeptFiles, 'database'>> {
  const projects = new Map<string, Kept>()
  const counted = new Set<string>()
  const sums = { archives: 0, logs: 0 }
  const countOnce = (key: string, { size, nlink }: Stats): number => {
    if (nlink === 1) return size
    return counted.has(key) ? 0 : (counted.add(key), size)
  }
  await statEach(directory, await readdir(directory).catch(() => []), (name, stats) => {
    const isArchive = name.endsWith('.zip')
    const file = `${stats.dev}:${stats.ino}`
    sums[isArchive ? 'archives' : 'logs'] += countOnce(file, stats)
    const projectId = owners.get(name.slice(0, name.indexOf('.')))
    if (projectId === undefined) return
    const kept = projects.get(projectId) ?? { ...nothingKept }
    projects.set(projectId, kept)
    if (isArchive && !/\.(before|scripted|marks)\.zip$/.test(name)) kept.archiveCount++
    kept[isArchive ? 'archiveBytes' : 'logBytes'] += countOnce(`${projectId} ${file}`, stats)
  })
  return { ...sums, projects }
}

/** Returns the bytes of the files in a directory that `isMeant` accepts, without subdirectories. */
export async function measureFiles(directory: string, isMeant: (name: string) => boolean): Promise<number> {
  const names = (await readdir(directory).catch(() => [])).filter(isMeant)
  let bytes = 0
  await statEach(directory, names, (_, { size }) => void (bytes += size))
  return bytes
}

/** Calls `visit` for each regular file. Skips files that were just removed. */
export async function statEach(
  directory: string,
  names: readonly string[],
  visit: (name: string, stats: Stats) => void
): Promise<void> {
  const next = names.values()
  const work = async (): Promise<void> => {
    for (const name of next) {
      const stats = await stat(join(directory, name)).catch(() => null)
      if (stats?.isFile()) visit(name, stats)
    }
  }
  await Promise.all(Array.from({ length: statsAbreast }, work))
}
