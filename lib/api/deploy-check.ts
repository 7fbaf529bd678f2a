import { Refusal, invalid } from '../base/refusal.js'
import type { Deployer } from '../deploy/deployer.js'
import { json } from '../http/route.js'
import type { Project } from '../model/project.js'
import type { UploadPermit } from '../model/upload-permit.js'
import type { Quota } from '../system/quota.js'
import { queryText } from './fields.js'
import { checkUploadProject } from './upload.js'
import type { ApiRequest, Handler } from './route.js'

const bytesPerMegabyte = 1024 * 1024

export interface DeployCheckNeeds {
  deployer: Pick<Deployer, 'checkClientScripts'>
  findProject(id: string): Project | undefined
  settings: { number(key: 'max_upload_size' | 'max_extracted_size'): number }
  quota: Pick<Quota, 'claim'>
}

/**
 * `GET /api/deploy/check?projectId=&scripts=`: whether an upload with this token would be refused, so that a client need
 * not pack and send it to find out. `scripts` lists the fields of client scripts that the upload would carry:
 * `preDeploy`, `postDeploy`. Refuses as the upload does, and 403 `deploy_token_needed` for the admin token.
 */
export function deployCheckHandlers({ deployer, findProject, settings, quota }: DeployCheckNeeds) {
  return {
    async check(request) {
      const projectId = queryText(request.query, 'projectId')
      if (projectId === undefined) throw invalid('projectId', '"projectId" is missing: which project to deploy to')
      refuseAdmin(request)
      refuseUnknown(projectId, request, findProject)
      const project = checkUploadProject(projectId, request.actor, findProject)
      const scripts = (queryText(request.query, 'scripts') ?? '').split(',').filter(Boolean)
      deployer.checkClientScripts(projectId, Object.fromEntries(scripts.map(name => [name, 'true'])))
      const claim = await quota.claim({ bytes: 1, projectId })
      claim.release()
      const permit: UploadPermit = {
        success: true,
        project: { id: project.id, name: project.name, env: project.env },
        maxUploadBytes: settings.number('max_upload_size') * bytesPerMegabyte,
        maxExtractedBytes: settings.number('max_extracted_size') * bytesPerMegabyte
      }
      return json(permit)
    }
  } satisfies Record<string, Handler>
}

/** With a code of its own: an older server answers 404 `not_found` to the request itself. */
function refuseUnknown(projectId: string, { actor }: ApiRequest, findProject: DeployCheckNeeds['findProject']): void {
  if (actor.role !== 'global' || findProject(projectId) !== undefined) return
  throw new Refusal('not_found', 'no_such_project', `Project not found: ${projectId}`)
}

function refuseAdmin({ actor }: ApiRequest): void {
  if (actor.role !== 'admin' && actor.role !== 'local') return
  const sentence = 'This is the admin token: an upload needs the deploy token of the project ("svc projects token" prints it)'
  throw new Refusal('forbidden', 'deploy_token_needed', sentence)
}
