import { defineCommand, exitCodes } from '../command.js'
import { adminDetails, sharedOptions } from '../common-options.js'
import { describeProject, findProject } from '../project-options.js'
import { confirm, mustAsk } from '../prompt.js'
import { loadConfiguration, openAdminApi } from '../session.js'

export const command = defineCommand({
  operands: {
    project: { required: true, help: 'its id or name', complete: 'projects' }
  },
  options: {
    yes: { ...sharedOptions.yes, help: 'do not ask; required where there is no terminal' },
    env: sharedOptions.env,
    server: sharedOptions.server,
    token: sharedOptions.adminToken
  },
  details: `Deletes its records, archives, outputs and log sources. The files in its directory on the server stay.\n\n${adminDetails}`,
  examples: [['projects delete shop', 'delete a project, after a question']],
  async run({ options, operands }, context) {
    const { env, server, token } = options
    const { host, output } = context
    if (!options.yes) mustAsk(host, 'A deletion must be confirmed', 'give --yes')
    const { config } = await loadConfiguration(context, { flags: { server, token }, env, project: 'optional' })
    const api = await openAdminApi(context, config)
    const project = await findProject(api, operands.project)
    const question = `Delete ${describeProject(project)} with its records, archives and outputs?`
    if (!options.yes && !(await confirm(host, question))) {
      output.note('Nothing was deleted.')
      return exitCodes.failed
    }
    await api.removeProject(project.id)
    output.print(`Deleted ${describeProject(project)}; the files there were left`)
    return exitCodes.success
  }
})
