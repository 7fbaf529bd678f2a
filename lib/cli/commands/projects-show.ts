import { defineCommand, exitCodes } from '../command.js'
import { adminDetails, adminOptions, projectJson } from '../common-options.js'
import { findProject, withMaskedToken } from '../project-options.js'
import { openAdmin, projectIdOf } from '../client/session.js'

/** The command `svc projects show`. */
export const command = defineCommand({
  operands: {
    project: { help: 'id or name of the project; default: the one in svc.config.json', complete: 'projects' }
  },
  options: {
    ...adminOptions,
    json: projectJson
  },
  details: adminDetails,
  examples: [['projects show shop', 'show the settings of a project']],
  async run({ options, operands }, context) {
    const { output } = context
    const { api, config } = await openAdmin(context, options, operands.project)
    const project = await findProject(api, projectIdOf(context, config))
    const shown = withMaskedToken(project)
    if (options.json) output.json(shown)
    else
      output.table(Object.entries(shown), [
        { header: 'FIELD', cell: ([field]) => field },
        { header: 'VALUE', cell: ([, value]) => textOf(value) }
      ])
    return exitCodes.success
  }
})

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}
