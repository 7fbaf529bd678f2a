import { Refusal, notFound } from '../base/errors.js'
import type { Deployer } from '../deploy/deployer.js'
import { commitUrl } from '../model/commit-link.js'
import { listedDeployment, type Deployment, type DeploymentRow, type ListedDeployment } from '../model/deployment.js'
import { shownDeployment } from './masks.js'
import type { ApiRequest } from './route.js'
import { checkProject } from './scope.js'

/** Output in a single record. */
const maxOutputBytes = 1024 * 1024
/** Output in each record of a list. */
const maxListedOutputBytes = 4 * 1024

/** A deployment as its reader sees it. */
type Shown<T extends DeploymentRow> = ReturnType<typeof shownDeployment<T>>

/** Reads deployment records for responses, as their reader sees them. */
export interface Records {
  /** Returns the row, and checks the access of the caller. Refuses: 404, 403 `other_project`. */
  find(request: ApiRequest, deployId: string): DeploymentRow
  /** As `find`, but a deployer has access only to what its own token started. Refuses: 403 `role_too_low`. */
  own(request: ApiRequest, deployId: string): DeploymentRow
  /** Returns the row without checking the caller, whose access was checked before. Refuses: 404. */
  row(deployId: string): DeploymentRow
  /** Adds the last 1 MiB of the output. */
  complete(request: ApiRequest, row: DeploymentRow, options?: { timestamps?: boolean }): Promise<Shown<Deployment>>
  /** Adds the last 4 KiB of the output. */
  listed(request: ApiRequest, row: DeploymentRow): Promise<Shown<Deployment>>
  /** Adds no output. */
  bare(request: ApiRequest, row: DeploymentRow): Shown<ListedDeployment>
}

/** Creates `Records`: rows of the database with the end of their output. */
export function createRecords(needs: {
  findDeployment(id: string): DeploymentRow | undefined
  deployer: Pick<Deployer, 'readOutput'>
  settings: { text(key: 'commit_url'): string }
}): Records {
  async function withOutput(
    row: Shown<ListedDeployment>,
    maxBytes: number,
    timestamps: boolean
  ): Promise<Shown<Deployment>> {
    const { text, truncated } = await needs.deployer.readOutput(row.id, { maxBytes, timestamps })
    return { ...row, output: text, ...(truncated ? { outputTruncated: true } : {}) }
  }

  function bare({ actor }: ApiRequest, row: DeploymentRow): Shown<ListedDeployment> {
    const address = commitUrl(row.provenance, needs.settings.text('commit_url'))
    const listed = listedDeployment(row)
    return shownDeployment(address === null ? listed : { ...listed, commitUrl: address }, actor)
  }

  function row(deployId: string): DeploymentRow {
    const found = needs.findDeployment(deployId)
    if (found === undefined) throw notFound('Deployment', deployId)
    return found
  }

  function find({ actor }: ApiRequest, deployId: string): DeploymentRow {
    const found = row(deployId)
    checkProject(actor, found.projectId, () => notFound('Deployment', deployId))
    return found
  }

  return {
    find,
    own(request, deployId) {
      const found = find(request, deployId)
      const { role, token } = request.actor
      if (role !== 'deployer' || token?.id === found.tokenId) return found
      const sentence = `Permission denied: the token "${token?.name}" has the role "deployer", and did not start this deployment`
      throw new Refusal('forbidden', 'role_too_low', sentence)
    },
    row,
    complete: (request, found, { timestamps = false } = {}) =>
      withOutput(bare(request, found), maxOutputBytes, timestamps),
    listed: (request, found) => withOutput(bare(request, found), maxListedOutputBytes, false),
    bare
  }
}
