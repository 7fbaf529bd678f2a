import { oneLine } from '../../base/text.js'
import { defineCommand, exitCodes } from '../command.js'
import { projectDetails } from '../common-options.js'
import { maintenanceOperands, maintenanceOptions, maintenanceSentence, openMaintenance } from '../maintenance-place.js'

/** The command `svc maintenance on`. */
export const command = defineCommand({
  operands: maintenanceOperands,
  options: {
    reason: { type: 'text', alias: 'm', value: 'text', help: 'why; the page that visitors see shows it' },
    force: { type: 'switch', help: 'replace a file of that name that svc did not place' },
    ...maintenanceOptions
  },
  details:
    'Places a file (the policy maintenanceFile, default .maintenance) in the target. A web server that is configured\n' +
    'to look for it shows it to visitors with status 503; docs/maintenance.md has the configuration for nginx and\n' +
    'Caddy. Deployments are not refused; "svc lock" does that. A running deployment is waited for.\n' +
    `The policy maintenancePage names a page of the site to show instead.\n\n${projectDetails}`,
  examples: [
    ['maintenance on shop --reason "Back at 18:00"', 'show visitors a page with this sentence'],
    ['maintenance on shop --force', 'also replace a file that svc did not place']
  ],
  async run({ options, operands }, context) {
    const { reason, force, json } = options
    const { api, projectId } = await openMaintenance(context, { options, operands })
    const maintenance = await api.setMaintenance(projectId, { on: true, reason, force })
    if (json) context.output.json({ maintenance })
    else context.output.print(oneLine(maintenanceSentence(maintenance)))
    return exitCodes.success
  }
})
