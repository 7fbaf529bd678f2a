import { Refusal } from '../base/refusal.js'
import type { EffectiveConfig } from '../config/precedence.js'
import type { UploadPermit } from '../model/upload-permit.js'
import type { Api } from './api.js'

export interface Preflight {
  api: Api
  projectId: string
  config: EffectiveConfig
  signal: AbortSignal
}

/**
 * Asks the server whether it would take this upload: token, project, client scripts, disk space. Returns its limits, or
 * null if it is older than the question. Refuses what the upload would be refused with, and adds the cure.
 */
export async function checkBeforePacking({ api, projectId, config, signal }: Preflight): Promise<UploadPermit | null> {
  const { preDeploy, postDeploy } = config
  const scripts = Object.entries({ preDeploy, postDeploy }).flatMap(([name, script]) => (script?.value.trim() ? [name] : []))
  try {
    return await api.checkUpload({ projectId, scripts, signal })
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    const cure = await cureOf(error, { api, projectId, config, signal })
    throw cure === null ? error : new Refusal(error.kind, error.code, cure, { cause: error })
  }
}

/** The refusal with its cure, in one sentence; null: the server's own sentence says all. */
async function cureOf({ code, message }: Refusal, { api, projectId, config }: Preflight): Promise<string | null> {
  const from = config.deployToken?.from ?? 'the command line'
  const current = `"svc projects token ${projectId}" prints the deploy token of ${projectId} to an administrator, and the panel shows it`
  if (code === 'deploy_token_needed') {
    return `The token from ${from} is the admin token: a push needs the project's deploy token. ${current}`
  }
  if (code === 'unauthorized') return `${message}. It is wrong, or was replaced on the server. ${current}`
  if (code !== 'other_project') return null
  const holder = await api.whoami().catch(() => null)
  const owner = holder?.project ? `project ${holder.project.name} (${holder.project.id})` : 'another project'
  const where = config.projectId === null ? '' : `, which ${config.projectId.from} names`
  return `The deploy token from ${from} belongs to ${owner}, not to ${projectId}${where}. Correct projectId, or give the token of ${projectId}`
}
