import type { ReleaseDocument } from '../../lib/model/fleet-wire.js'

/** Returns a release document without settings, for a node. */
export function releaseDocument(more: Partial<ReleaseDocument> = {}): ReleaseDocument {
  return {
    deployId: 'dep_1',
    projectId: 'proj_hub',
    projectName: 'Shop',
    env: 'staging',
    deployPath: '/srv/shop',
    treeSha256: 'aa',
    archiveSha256: 'bb',
    archiveBytes: 0,
    fileCount: 0,
    policy: {},
    project: {},
    variables: [],
    offered: { origin: 'upload' },
    clientEnv: {},
    message: null,
    ...more
  }
}
