import { Refusal } from '../base/errors.js'
import { createMemory, type Memory } from '../store/memory.js'
import { applicationId, migrate, schemaVersion, versionOf } from '../store/schema.js'
import { loadSqlite } from '../store/sqlite.js'
import { deploymentStates } from '../store/tables/deployments.js'
import { readProjects } from '../store/tables/projects.js'
import { damaged, newer } from './seal.js'

/** The contents of a backup's database that a restore reports. */
export interface DatabaseContents {
  projects: Array<{ id: string; name: string; deployPath: string }>
  deployments: number
  /** Ids of the deployments whose archive is recorded but missing from the backup. */
  missingArchives: string[]
}

interface Given {
  /** The path of the backup. */
  path: string
  /** Ids of the deployments whose archive is in the backup. */
  archives: ReadonlySet<string>
}

/** Checks every page and the schema of a backup's database. Refuses `backup_damaged`, `backup_newer`. */
export async function checkDatabase(file: Uint8Array, { path, archives }: Given): Promise<DatabaseContents> {
  const memory = open(await loadSqlite(), file, path)
  try {
    const fault = String(memory.pragma('integrity_check(1)'))
    if (fault !== 'ok') throw damaged(path, `its database has a fault: ${fault.replaceAll('\n', '; ')}`)
    if (memory.pragma('application_id') !== applicationId)
      throw damaged(path, 'its database belongs to another program')
    const version = versionOf(memory)
    if (version > schemaVersion) {
      throw newer(path, `its database has schema version ${version}, but this svc supports at most ${schemaVersion}`)
    }
    // This migrates a copy in memory. The next start migrates the restored database.
    migrate(memory)
    const states = deploymentStates(memory)
    return {
      projects: readProjects(memory, ['id', 'name', 'deployPath']),
      deployments: states.length,
      missingArchives: states.filter(({ id, hasArtifact }) => hasArtifact && !archives.has(id)).map(({ id }) => id)
    }
  } catch (error) {
    throw error instanceof Refusal
      ? error
      : damaged(path, `its database cannot be read: ${(error as Error).message}`, error)
  } finally {
    memory.close()
  }
}

function open(sqlite: Awaited<ReturnType<typeof loadSqlite>>, file: Uint8Array, path: string): Memory {
  try {
    return createMemory(sqlite, file)
  } catch (error) {
    throw damaged(path, `its database cannot be read: ${(error as Error).message}`, error)
  }
}
