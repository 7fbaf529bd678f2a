import { defineCommand, exitCodes } from '../command.js'
import { adminDetails, adminOptions, sharedOptions } from '../common-options.js'
import { describeProject, findProject } from '../project-options.js'
import { confirm, mustAsk } from '../terminal/prompt.js'
import { openAdmin } from '../client/session.js'

/** The command `svc projects delete`. */
export const command = defineCommand({
  operands: {
    project: { required: true, help: 'id or name of the project', complete: 'projects' }
  },
  options: {
    yes: { ...sharedOptions.yes, help: 'do not ask; required without a terminal' },
    ...adminOptions
  },
  details: `Deletes the deployments, archives, outputs and log sources of the project. Its target directory stays.\n\n${adminDetails}`,
  examples: [['projects delete shop', 'delete a project after confirmation']],
  async run({ options, operands }, context) {
    const { host, output } = context
    if (!options.yes) mustAsk(host, 'Deleting a project needs a confirmation', 'use --yes')
    const { api } = await openAdmin(context, options)
    const project = await findProject(api, operands.project)
    const question = `Delete ${describeProject(project)} with its deployments, archives and outputs?`
    if (!options.yes && !(await confirm(host, question))) {
      output.note('Nothing was deleted.')
      return exitCodes.failed
    }
    await api.removeProject(project.id)
    output.print(`Deleted ${describeProject(project)}. The files in its target directory were kept`)
    return exitCodes.success
  }
})
