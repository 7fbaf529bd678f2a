import type { Api } from './client/api.js'
import type { Context } from './command.js'
import { adminDetails, sharedOptions } from './common-options.js'
import { loadConfiguration, openAdminApi, projectIdOf } from './client/session.js'

/** Options that the commands of `svc env` share. */
export const variableOptions = {
  project: { type: 'text', value: 'id', help: 'the project; default: the one in svc.config.json' },
  env: sharedOptions.env,
  server: sharedOptions.server,
  token: sharedOptions.adminToken
} as const

/** Closing sentences of the help of these commands. */
export const variableDetails = `Changes take effect with the next deployment.\n${adminDetails}`

/** The values of `variableOptions`. */
interface Asked {
  project: string | undefined
  env: string | undefined
  server: string | undefined
  token: string | undefined
}

/** Opens the API of the server with a token of the server. Returns it with the id of the project. */
export async function openVariables(
  context: Context,
  { project, env, server, token }: Asked
): Promise<{ api: Api; projectId: string }> {
  const { config } = await loadConfiguration(context, {
    flags: { server, token, ...(project !== undefined && { project }) },
    env,
    project: project === undefined ? 'needed' : 'optional'
  })
  return { api: await openAdminApi(context, config), projectId: projectIdOf(context, config) }
}
