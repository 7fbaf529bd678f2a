import { oneLine } from '../../base/text.js'
import { defineCommand, exitCodes } from '../command.js'
import { projectDetails } from '../common-options.js'
import { maintenanceOperands, maintenanceOptions, maintenanceSentence, openMaintenance } from '../maintenance-place.js'

/** The command `svc maintenance status`. */
export const command = defineCommand({
  operands: maintenanceOperands,
  options: maintenanceOptions,
  details: `"svc locks" lists all projects in maintenance.\n\n${projectDetails}`,
  examples: [['maintenance status shop', 'find out since when, by whom and why']],
  async run({ options, operands }, context) {
    const { api, projectId } = await openMaintenance(context, { options, operands })
    const maintenance = await api.maintenance(projectId)
    if (options.json) context.output.json({ maintenance })
    else context.output.print(oneLine(maintenanceSentence(maintenance)))
    return exitCodes.success
  }
})
