import { createFleetApi } from '../client/fleet-api.js'
import { openAdmin } from '../client/session.js'
import { defineCommand, exitCodes } from '../command.js'
import { adminDetails, adminOptions, sharedOptions } from '../common-options.js'
import { nodeOperand } from '../fleet/fleet-place.js'
import { confirm, mustAsk } from '../terminal/prompt.js'

/** The command `svc fleet forget`. */
export const command = defineCommand({
  operands: { node: nodeOperand },
  options: {
    yes: { ...sharedOptions.yes, help: 'do not ask before removing the node; required without a terminal' },
    ...adminOptions
  },
  details: `Removes a node from the fleet: its key is no longer accepted. Its files stay, and keep serving.\n\n${adminDetails}`,
  examples: [['fleet forget web-1 --yes', 'remove a node whose machine is gone']],
  async run({ options, operands }, context) {
    const { host, output } = context
    if (!options.yes) mustAsk(host, 'Removing a node needs a confirmation', 'use --yes')
    const { api } = await openAdmin(context, options)
    const fleet = createFleetApi(api.client)
    const node = await fleet.node(operands.node)
    if (!options.yes && !(await confirm(host, `Remove the node "${node.name}"?`))) {
      output.note('Nothing was changed.')
      return exitCodes.failed
    }
    await fleet.forget(node.id)
    output.print(`The node "${node.name}" was removed. Its files stay`)
    return exitCodes.success
  }
})
