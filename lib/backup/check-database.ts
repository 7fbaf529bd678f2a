import { Refusal } from '../base/refusal.js'
import { createMemory } from '../store/memory.js'
import type { Memory } from '../store/memory.js'
import { applicationId, migrate, schemaVersion, versionOf } from '../store/schema.js'
import { loadSqlite } from '../store/sqlite.js'
import { deploymentStates } from '../store/tables/deployments.js'
import { readProjects } from '../store/tables/projects.js'
import { damaged, newer } from './seal.js'

/** What the database of a backup holds, as far as a restore has something to say of it. */
export interface DatabaseContents {
  projects: Array<{ id: string; name: string; deployPath: string }>
  deployments: number
  /** Deployments whose archive the record tells of, and the backup does not have. */
  missingArchives: string[]
}

interface Given {
  /** Of the backup. */
  path: string
  /** Ids of the deployments whose archive it has. */
  archives: ReadonlySet<string>
}

/** Looks at every page, and at the schema. Refuses backup_damaged, backup_newer. */
export async function checkDatabase(file: Uint8Array, { path, archives }: Given): Promise<DatabaseContents> {
  const memory = open(await loadSqlite(), file, path)
  try {
    const fault = String(memory.pragma('integrity_check(1)'))
    if (fault !== 'ok') throw damaged(path, `its database: ${fault.replaceAll('\n', '; ')}`)
    if (memory.pragma('application_id') !== applicationId) throw damaged(path, 'its database is that of another program')
    const version = versionOf(memory)
    if (version > schemaVersion) {
      throw newer(path, `its database has schema version ${version}, and this svc knows ${schemaVersion} and older`)
    }
    // Of this copy: the next start does the same to the one that is restored.
    migrate(memory)
    const states = deploymentStates(memory)
    return {
      projects: readProjects(memory, ['id', 'name', 'deployPath']),
      deployments: states.length,
      missingArchives: states.filter(({ id, hasArtifact }) => hasArtifact && !archives.has(id)).map(({ id }) => id)
    }
  } catch (error) {
    throw error instanceof Refusal ? error : damaged(path, `its database: ${(error as Error).message}`, error)
  } finally {
    memory.close()
  }
}

function open(sqlite: Awaited<ReturnType<typeof loadSqlite>>, file: Uint8Array, path: string): Memory {
  try {
    return createMemory(sqlite, file)
  } catch (error) {
    throw damaged(path, `its database: ${(error as Error).message}`, error)
  }
}
