import type { EffectiveConfig } from '../config/precedence.js'
import { type Context, usage } from './command.js'
import type { Api } from './client/api.js'
import { loadConfiguration, openAdminApi, openProjectApi, projectIdOf } from './client/session.js'
import { sharedOptions } from './common-options.js'
import { findProject } from './project-options.js'

/** Options of the commands that place and remove locks. */
export const lockOptions = {
  all: { type: 'switch', help: 'the lock of the whole server instead of one project' },
  env: sharedOptions.env,
  server: sharedOptions.server,
  token: sharedOptions.token,
  json: { type: 'switch', help: 'print the lock as JSON' }
} as const

/** The operand of these commands. */
export const lockOperands = {
  project: { complete: 'projects', help: 'id or name of the project; default: the one in svc.config.json' }
} as const

/** The part of a command line that names what is locked. */
interface Given {
  operands: { project: string | undefined }
  options: { all: boolean; env: string | undefined; server: string | undefined; token: string | undefined }
}

/** Opens the API, and returns the id of the project that the command line names, or null for the whole server. */
export async function openLockPlace(
  context: Context,
  { operands: { project }, options: { all, env, server, token } }: Given
): Promise<{ api: Api; projectId: string | null }> {
  if (all && project !== undefined) throw usage('--all', 'Give a project or --all, not both')
  const { config } = await loadConfiguration(context, {
    flags: { server, token, project },
    env,
    project: all || project !== undefined ? 'optional' : 'needed'
  })
  if (all) return { api: await openAdminApi(context, config), projectId: null }
  const api = await openProjectApi(context, config)
  return { api, projectId: await idOf(context, config, api) }
}

/** Returns the id of the configured project. A deploy token cannot look up names. */
async function idOf(context: Context, config: EffectiveConfig, api: Api): Promise<string> {
  const word = projectIdOf(context, config)
  return /^proj_\w+$/.test(word) ? word : (await findProject(api, word)).id
}
