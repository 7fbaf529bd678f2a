import { defineCommand, exitCodes } from '../command.js'
import { projectDetails } from '../common-options.js'
import { maintenanceOperands, maintenanceOptions, maintenanceSentence, openMaintenance } from '../maintenance-place.js'

/** The command `svc maintenance off`. */
export const command = defineCommand({
  operands: maintenanceOperands,
  options: {
    force: { type: 'switch', help: 'remove the file although somebody changed it' },
    ...maintenanceOptions
  },
  details:
    'Removes the file of "svc maintenance on" from the target. With a deploy token, only a maintenance that was begun\n' +
    `with it can be ended.\n\n${projectDetails}`,
  examples: [['maintenance off shop', 'let visitors in again']],
  async run({ options, operands }, context) {
    const { force, json } = options
    const { api, projectId } = await openMaintenance(context, { options, operands })
    const maintenance = await api.setMaintenance(projectId, { on: false, force })
    if (json) context.output.json({ maintenance })
    else context.output.print(maintenanceSentence(maintenance))
    return exitCodes.success
  }
})
