import { Refusal, notFound } from '../base/refusal.js'
import type { Deployer } from '../deploy/deployer.js'
import { commitUrl } from '../model/commit-link.js'
import { listedDeployment, type Deployment, type DeploymentRow, type ListedDeployment } from '../model/deployment.js'
import type { ApiRequest } from './route.js'

/** Output in a single record. */
const maxOutputBytes = 1024 * 1024
/** Output in each record of a list. */
const maxListedOutputBytes = 4 * 1024

/** Reads deployment records for responses. */
export interface Records {
  /** Returns the row, and checks the access of the caller. Refuses: 404, 403 `other_project`. */
  find(request: ApiRequest, deployId: string): DeploymentRow
  /** Returns the row without checking the caller, whose access was checked before. Refuses: 404. */
  row(deployId: string): DeploymentRow
  /** Adds the last 1 MiB of the output. */
  complete(row: DeploymentRow, options?: { timestamps?: boolean }): Promise<Deployment>
  /** Adds the last 4 KiB of the output. */
  listed(row: DeploymentRow): Promise<Deployment>
  /** Adds no output. */
  bare(row: DeploymentRow): ListedDeployment
}

/** Creates `Records`: rows of the database with the end of their output. */
export function createRecords(needs: {
  findDeployment(id: string): DeploymentRow | undefined
  deployer: Pick<Deployer, 'readOutput'>
  settings: { text(key: 'commit_url'): string }
}): Records {
  async function withOutput(row: DeploymentRow, maxBytes: number, timestamps: boolean): Promise<Deployment> {
    const { text, truncated } = await needs.deployer.readOutput(row.id, { maxBytes, timestamps })
    return { ...bare(row), output: text, ...(truncated ? { outputTruncated: true } : {}) }
  }

  function bare(row: DeploymentRow): ListedDeployment {
    const address = commitUrl(row.provenance, needs.settings.text('commit_url'))
    return address === null ? listedDeployment(row) : { ...listedDeployment(row), commitUrl: address }
  }

  function row(deployId: string): DeploymentRow {
    const found = needs.findDeployment(deployId)
    if (found === undefined) throw notFound('Deployment', deployId)
    return found
  }

  return {
    find(request, deployId) {
      const found = row(deployId)
      checkOwn(request, found.projectId)
      return found
    },
    row,
    complete: (found, { timestamps = false } = {}) => withOutput(found, maxOutputBytes, timestamps),
    listed: found => withOutput(found, maxListedOutputBytes, false),
    bare
  }
}

/** Refuses the deploy token of another project with 403 `other_project`. */
export function checkOwn({ actor }: ApiRequest, projectId: string): void {
  if (actor.role !== 'project' || actor.projectId === projectId) return
  throw new Refusal('forbidden', 'other_project', 'This deploy token belongs to another project')
}
