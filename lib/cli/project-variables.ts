import type { Api } from './api.js'
import type { Context } from './command.js'
import { adminDetails, sharedOptions } from './common-options.js'
import { loadConfiguration, openAdminApi, projectIdOf } from './session.js'

/** Options that the commands of `svc env` have in common. */
export const variableOptions = {
  project: { type: 'text', value: 'id', help: 'the project; else the one of svc.config.json' },
  env: sharedOptions.env,
  server: sharedOptions.server,
  token: sharedOptions.adminToken
} as const

/** The end of their help. */
export const variableDetails = `A change takes effect with the next deployment.\n${adminDetails}`

interface Asked {
  project: string | undefined
  env: string | undefined
  server: string | undefined
  token: string | undefined
}

/** The server's API, and the project that is meant. */
export async function openVariables(context: Context, { project, env, server, token }: Asked): Promise<{ api: Api; projectId: string }> {
  const { config } = await loadConfiguration(context, {
    flags: { server, token, ...(project !== undefined && { project }) },
    env,
    project: project === undefined ? 'needed' : 'optional'
  })
  return { api: await openAdminApi(context, config), projectId: projectIdOf(context, config) }
}
