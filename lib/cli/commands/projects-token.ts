import { defineCommand, exitCodes } from '../command.js'
import { oneLine } from '../../base/text.js'
import { Refusal } from '../../base/errors.js'
import type { ShownProject } from '../../model/project.js'
import { adminDetails, adminOptions, sharedOptions } from '../common-options.js'
import { describeProject, findProject } from '../project-options.js'
import { confirm, mustAsk } from '../terminal/prompt.js'
import { loadConfiguration, openAdminApi, projectIdOf } from '../client/session.js'

/** The command `svc projects token`. */
export const command = defineCommand({
  operands: {
    project: { help: 'id or name of the project; default: the one in svc.config.json', complete: 'projects' }
  },
  options: {
    new: { type: 'switch', help: 'replace the token; the old one becomes invalid' },
    yes: { ...sharedOptions.yes, help: 'do not ask before replacing the token; required without a terminal' },
    ...adminOptions
  },
  details: `Prints only the token, so that you can pipe it.\n\n${adminDetails}`,
  examples: [
    ['projects token shop | svc login --token -', 'store the token on this machine'],
    ['projects token shop --new --yes', 'replace a token that leaked']
  ],
  async run({ options, operands }, context) {
    const { env, server, token } = options
    const { config } = await loadConfiguration(context, {
      flags: { server, token, project: operands.project },
      env,
      project: 'optional'
    })
    if (options.new && !options.yes) mustAsk(context.host, 'Replacing the token needs a confirmation', 'use --yes')
    const api = await openAdminApi(context, config)
    const project = await findProject(api, projectIdOf(context, config))
    if (
      options.new &&
      !options.yes &&
      !(await confirm(context.host, `Replace the deploy token of ${describeProject(project)}?`))
    ) {
      context.output.note('Nothing was changed.')
      return exitCodes.failed
    }
    context.output.print(options.new ? await api.replaceToken(project.id) : visible(project))
    return exitCodes.success
  }
})

/** Returns the token of a project. Refuses: `role_too_low` if the server hides it from the caller. */
function visible({ token, name }: ShownProject): string {
  if (token !== null) return token
  const sentence = `Permission denied: the deploy token of ${oneLine(name)} is shown to the role "admin" only`
  throw new Refusal('forbidden', 'role_too_low', sentence)
}
