import { Refusal } from '../../base/errors.js'
import type { EffectiveConfig } from '../../config/precedence.js'
import type { UploadPermit } from '../../model/upload-permit.js'
import type { Api } from '../client/api.js'

/** An upload to check in advance. */
export interface Preflight {
  api: Api
  projectId: string
  config: EffectiveConfig
  signal: AbortSignal
}

/**
 * Asks the server whether it would accept this upload: token, project, client scripts, disk space. Returns its limits,
 * or null if the server is too old to say. Throws the refusal of the upload, with advice added.
 */
export async function checkBeforePacking({ api, projectId, config, signal }: Preflight): Promise<UploadPermit | null> {
  const { preDeploy, postDeploy } = config
  const scripts = Object.entries({ preDeploy, postDeploy }).flatMap(([name, script]) =>
    script?.value.trim() ? [name] : []
  )
  try {
    return await api.checkUpload({ projectId, scripts, signal })
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    const cure = await cureOf(error, { api, projectId, config, signal })
    throw cure === null ? error : new Refusal(error.kind, error.code, cure, { cause: error })
  }
}

/** Returns the sentence of a refusal with advice, or null if the server's own sentence is enough. */
async function cureOf({ code, message }: Refusal, { api, projectId, config }: Preflight): Promise<string | null> {
  const from = config.deployToken?.from ?? 'the command line'
  const advice = `An administrator can print the deploy token with "svc projects token ${projectId}" or find it in the panel`
  if (code === 'deploy_token_needed') {
    return `The token from ${from} is the admin token, but a push needs the deploy token of the project. ${advice}`
  }
  if (code === 'locked') {
    return `${message}. "svc push --wait" waits for the end of the lock; "svc unlock --take-over <reason>" needs a token that is no deploy token`
  }
  if (code === 'unauthorized') return `${message}. It is wrong, or was replaced on the server. ${advice}`
  if (code !== 'other_project') return null
  const holder = await api.whoami().catch(() => null)
  const owner = holder?.project ? `project ${holder.project.name} (${holder.project.id})` : 'another project'
  const where = config.projectId === null ? '' : ` (from ${config.projectId.from})`
  return `The deploy token from ${from} belongs to ${owner}, not to ${projectId}${where}. Correct the project id, or use the token of ${projectId}`
}
