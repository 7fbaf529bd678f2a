import { Refusal, invalid } from '../base/errors.js'
import type { Deployer } from '../deploy/deployer.js'
import { json } from '../http/core/route.js'
import { isInScope } from '../model/access.js'
import type { FleetNode } from '../model/node.js'
import { policyOf } from '../model/policy.js'
import type { Project } from '../model/project.js'
import { uploadFeatures, type PlannedRollout, type UploadPermit } from '../model/upload-permit.js'
import type { Quota } from '../machine/quota.js'
import { queryText } from './query.js'
import { checkUploadProject } from './upload.js'
import type { ApiRequest, Handler } from './route.js'

const bytesPerMegabyte = 1024 * 1024

/** Dependencies of the upload check. */
export interface DeployCheckNeeds {
  deployer: Pick<Deployer, 'checkClientScripts' | 'checkLocks' | 'countAhead' | 'rolloutAhead'>
  findProject(id: string): Project | undefined
  settings: { number(key: 'max_upload_size' | 'max_extracted_size'): number }
  quota: Pick<Quota, 'claim'>
  /** Returns when a named token expires. */
  expiryOf(tokenId: string): string
  /** Returns the nodes on which a project is placed. */
  nodesOf(projectId: string): FleetNode[]
  /** The addresses of the hubs of the cluster; undefined: the server is alone. */
  hubs: (() => string[]) | undefined
}

/**
 * Handler of `GET /api/deploy/check?projectId=&scripts=`: checks whether an upload with this token would be accepted,
 * so that a client can find out before it packs and sends files. `scripts` lists the script fields that the upload
 * would contain: `preDeploy`, `postDeploy`. Refuses like the upload, and with 403 `deploy_token_needed` for the admin
 * token.
 */
export function deployCheckHandlers(needs: DeployCheckNeeds) {
  const { deployer, findProject, settings, quota, expiryOf } = needs
  return {
    async check(request) {
      const projectId = queryText(request.query, 'projectId')
      if (projectId === undefined) throw invalid('projectId', '"projectId" is missing: name the project to deploy to')
      refuseAdmin(request)
      refuseUnknown(projectId, request, findProject)
      const project = checkUploadProject(projectId, request.actor, findProject)
      const scripts = (queryText(request.query, 'scripts') ?? '').split(',').filter(Boolean)
      deployer.checkClientScripts(projectId, Object.fromEntries(scripts.map(name => [name, 'true'])))
      deployer.checkLocks(projectId)
      const { token } = request.actor
      const claim = await quota.claim({ bytes: 1, projectId })
      claim.release()
      const rolloutAhead = deployer.rolloutAhead(projectId)
      const permit: UploadPermit = {
        success: true,
        project: { id: project.id, name: project.name, env: project.env },
        deploymentsAhead: deployer.countAhead(projectId),
        ...(rolloutAhead !== null && { rolloutAhead }),
        maxUploadBytes: settings.number('max_upload_size') * bytesPerMegabyte,
        maxExtractedBytes: settings.number('max_extracted_size') * bytesPerMegabyte,
        features: [...uploadFeatures],
        ...(token !== undefined && { token: { name: token.name, expiresAt: expiryOf(token.id) } }),
        rollout: await plannedRollout(project, needs.nodesOf(project.id)),
        ...(needs.hubs !== undefined && { hubs: needs.hubs() })
      }
      return json(permit)
    }
  } satisfies Record<string, Handler>
}

/** Returns the rollout that an upload would begin; null: the project is not placed on nodes. */
async function plannedRollout(project: Project, placed: readonly FleetNode[]): Promise<PlannedRollout | null> {
  if (placed.length === 0) return null
  // A server without a fleet loads nothing of it.
  const { planWaves } = await import('../fleet/waves.js')
  const policy = policyOf(project).rollout
  const taking = placed.filter(({ isDrained }) => !isDrained)
  return { nodes: taking.length, waves: planWaves(taking, policy).waves, policy }
}

/**
 * Refuses an unknown project with `no_such_project`. The code differs from `not_found`, which an older server without
 * this route answers.
 */
export function refuseUnknown(
  projectId: string,
  { actor }: ApiRequest,
  findProject: DeployCheckNeeds['findProject']
): void {
  if (actor.role === 'project') return
  if (isInScope(actor.projects, projectId) && findProject(projectId) !== undefined) return
  throw new Refusal('not_found', 'no_such_project', `Project not found: "${projectId}"`)
}

/** Refuses the admin token with `deploy_token_needed`: it cannot upload. */
function refuseAdmin({ actor }: ApiRequest): void {
  if (actor.token !== undefined || (actor.role !== 'admin' && actor.role !== 'local')) return
  const sentence =
    'An upload needs the deploy token of the project, not the admin token. "svc projects token" prints it'
  throw new Refusal('forbidden', 'deploy_token_needed', sentence)
}
