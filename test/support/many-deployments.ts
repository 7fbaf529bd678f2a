import { insertDeployment } from '../../lib/core/store/tables/deployments.js'
import type { Store } from '../../lib/core/store/database.js'

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
        insertDeployment(tx, {
          id: `dep_${String(index).padStart(16, 'a')}`,
          projectId,
          projectName,
          status: index % 9 === 0 ? 'failed' : 'success',
          triggerSource: 'cli',
          startTime: new Date(base + index * 60_000).toISOString(),
          endTime: new Date(base + index * 60_000 + 5000).toISOString(),
          duration: '5s',
          rollbackOf: null,
          exact: false,
          undoOf: null,
          promotedFrom: null,
          uploadedBytes: null,
          reusedFrom: null,
          signedBy: [],
          statement: null,
          override: null,
          message: `change ${index}`,
          env: 'production',
          hasArtifact: false,
          archiveBytes: 1000,
          archiveSha256: null,
          fileCount: 3,
          errorMessage: null,
          actor: null,
          tokenId: null,
          actorIp: '10.0.0.1',
          claimedIp: null,
          traceId: null,
          placed: null,
          provenance: null,
          treeSha256: null,
          heldFor: null,
          holdUntil: null,
          startAt: null,
          approvals: [],
          confirmSeconds: null,
          revertedAt: null,
          revertReason: null,
          checks: [],
          steps: [],
          scripts: []
        })
      }
    })
  }
}
