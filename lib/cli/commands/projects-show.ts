import { maskToken } from '../../config/precedence.js'
import type { Project } from '../../model/project.js'
import { defineCommand, exitCodes } from '../command.js'
import { adminDetails, sharedOptions } from '../common-options.js'
import { findProject } from '../project-options.js'
import { loadConfiguration, openAdminApi, projectIdOf } from '../session.js'

export const command = defineCommand({
  operands: {
    project: { help: 'its id or name; else the project of svc.config.json', complete: 'projects' }
  },
  options: {
    env: sharedOptions.env,
    server: sharedOptions.server,
    token: sharedOptions.adminToken,
    json: { type: 'switch', help: 'print the project as JSON, its deploy token masked' }
  },
  details: adminDetails,
  examples: [['projects show shop', 'show the settings of a project']],
  async run({ options, operands }, context) {
    const { output } = context
    const { env, server, token } = options
    const { config } = await loadConfiguration(context, { flags: { server, token, project: operands.project }, env, project: 'optional' })
    const project = await findProject(await openAdminApi(context, config), projectIdOf(context, config))
    const shown: Project = { ...project, token: maskToken(project.token) }
    if (options.json) output.json(shown)
    else output.table(Object.entries(shown), [{ header: 'FIELD', cell: ([field]) => field }, { header: 'VALUE', cell: ([, value]) => textOf(value) }])
    return exitCodes.success
  }
})

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}
