import { createFleetApi } from '../client/fleet-api.js'
import { openAdmin } from '../client/session.js'
import { defineCommand, exitCodes } from '../command.js'
import { adminOptions, sharedOptions } from '../common-options.js'
import { nodeOperand } from '../fleet/fleet-place.js'

/** The command `svc fleet undrain`. */
export const command = defineCommand({
  operands: { node: nodeOperand },
  options: { json: { ...sharedOptions.json, help: 'print the node as JSON' }, ...adminOptions },
  details: 'The node gets what is desired now.\n\nNeeds the admin token, or a named token with the role operator.',
  examples: [['fleet undrain web-1', 'let the node take part again']],
  async run({ options, operands }, context) {
    const { api } = await openAdmin(context, options)
    const node = await createFleetApi(api.client).drain(operands.node, false)
    if (options.json) context.output.json(node)
    else context.output.print(`"${node.name}" takes part in rollouts again`)
    return exitCodes.success
  }
})
