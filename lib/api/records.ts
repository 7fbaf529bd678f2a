import { Refusal, notFound } from '../base/refusal.js'
import type { Deployer } from '../deploy/deployer.js'
import { commitUrl } from '../model/commit-link.js'
import { listedDeployment, type Deployment, type DeploymentRow, type ListedDeployment } from '../model/deployment.js'
import type { ApiRequest } from './route.js'

const maxOutputBytes = 1024 * 1024 // of a record
const maxListedOutputBytes = 4 * 1024 // of each in a list

export interface Records {
  /** The row, for one who may see it. Refuses: 404, 403 `other_project`. */
  find(request: ApiRequest, deployId: string): DeploymentRow
  /** The row, for one who has been let see it before. Refuses: 404. */
  row(deployId: string): DeploymentRow
  complete(row: DeploymentRow, options?: { timestamps?: boolean }): Promise<Deployment>
  listed(row: DeploymentRow): Promise<Deployment>
  /** Without any output. */
  bare(row: DeploymentRow): ListedDeployment
}

/** Deployment records as the API answers them: the row, and the end of its output. */
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

/** Refuses a project's token that asks for what is another project's. */
export function checkOwn({ actor }: ApiRequest, projectId: string): void {
  if (actor.role !== 'project' || actor.projectId === projectId) return
  throw new Refusal('forbidden', 'other_project', 'This deploy token belongs to another project')
}
