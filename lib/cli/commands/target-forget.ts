import { defineCommand, exitCodes } from '../command.js'
import { adminDetails, adminOptions, sharedOptions } from '../common-options.js'
import { openAdmin } from '../client/session.js'
import { confirm, mustAsk } from '../terminal/prompt.js'

/** The command `svc target forget`. */
export const command = defineCommand({
  operands: {
    deployId: { required: true, complete: 'deployments', help: 'id of the deployment; "svc doctor" shows it' }
  },
  options: {
    yes: { ...sharedOptions.yes, help: 'do not ask; required without a terminal' },
    json: sharedOptions.json,
    ...adminOptions
  },
  details: `A deployment was interrupted, and its target is not there any more: its disk is missing, or it was moved. svc waits
for it, and finishes or undoes the change when it is back. Use this command if it never comes back. Refused while the
target is there.\n\n${adminDetails}`,
  examples: [['target forget dep_abcdefghijklmnop', 'give the target up after confirmation']],
  async run({ options, operands: { deployId } }, context) {
    const { host, output } = context
    if (!options.yes) mustAsk(host, 'Giving up a target needs a confirmation', 'use --yes')
    const { api } = await openAdmin(context, options)
    const question = `Give up the target of ${deployId}? If it comes back, half of a change may stay in it.`
    if (!options.yes && !(await confirm(host, question))) {
      output.note('Nothing was changed.')
      return exitCodes.failed
    }
    const { given } = await api.giveUp(deployId)
    if (options.json) output.json(given)
    else output.print(`Gave up ${given.target ?? 'the target'} of ${deployId}`)
    return exitCodes.success
  }
})
