import { insertDeployment } from '../../lib/core/store/tables/deployments.js'
import type { Store } from '../../lib/core/store/database.js'
import { aDeployment } from '../core/store/stage.js'

export interface ManyDeployments {
  count: number
  projectId: string
  projectName: string
}

/**
 * Records of a project that was deployed once a minute, `change 0` to `change <count - 1>`, every ninth of them failed.
 */
export async function insertDeployments(
  store: Store,
  { count, projectId, projectName }: ManyDeployments
): Promise<void> {
  const base = Date.parse('2026-01-01T00:00:00Z')
  for (let from = 0; from < count; from += 1000) {
    await store.write(tx => {
      for (let index = from; index < Math.min(count, from + 1000); index++) {
        const made = aDeployment({
          id: `dep_${String(index).padStart(16, 'a')}`,
          projectId,
          projectName,
          status: index % 9 === 0 ? 'failed' : 'success',
          startTime: new Date(base + index * 60_000).toISOString(),
          endTime: new Date(base + index * 60_000 + 5000).toISOString(),
          duration: '5s',
          message: `change ${index}`,
          hasArtifact: false,
          archiveBytes: 1000,
          archiveSha256: null,
          fileCount: 3,
          actorIp: '10.0.0.1',
          steps: [],
          scripts: []
        })
        insertDeployment(tx, made)
      }
    })
  }
}
