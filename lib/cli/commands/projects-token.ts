import { defineCommand, exitCodes } from '../command.js'
import { adminDetails, sharedOptions } from '../common-options.js'
import { describeProject, findProject } from '../project-options.js'
import { confirm, mustAsk } from '../prompt.js'
import { loadConfiguration, openAdminApi, projectIdOf } from '../session.js'

export const command = defineCommand({
  operands: {
    project: { help: 'its id or name; else the project of svc.config.json', complete: 'projects' }
  },
  options: {
    new: { type: 'switch', help: 'replace the token: the old one is no longer valid' },
    yes: { ...sharedOptions.yes, help: 'do not ask before replacing it; required where there is no terminal' },
    env: sharedOptions.env,
    server: sharedOptions.server,
    token: sharedOptions.adminToken
  },
  details: `Prints the token alone, for a pipe.\n\n${adminDetails}`,
  examples: [
    ['projects token shop | svc login --token -', 'store the token on this machine'],
    ['projects token shop --new --yes', 'replace a token that leaked']
  ],
  async run({ options, operands }, context) {
    const { env, server, token } = options
    const { config } = await loadConfiguration(context, { flags: { server, token, project: operands.project }, env, project: 'optional' })
    if (options.new && !options.yes) mustAsk(context.host, 'A new token must be confirmed', 'give --yes')
    const api = await openAdminApi(context, config)
    const project = await findProject(api, projectIdOf(context, config))
    if (options.new && !options.yes && !(await confirm(context.host, `Replace the deploy token of ${describeProject(project)}?`))) {
      context.output.note('Nothing was changed.')
      return exitCodes.failed
    }
    context.output.print(options.new ? await api.replaceToken(project.id) : project.token)
    return exitCodes.success
  }
})
