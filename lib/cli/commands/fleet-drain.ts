import { createFleetApi } from '../client/fleet-api.js'
import { openAdmin } from '../client/session.js'
import { defineCommand, exitCodes } from '../command.js'
import { adminOptions, sharedOptions } from '../common-options.js'
import { nodeOperand } from '../fleet/fleet-place.js'

/** The command `svc fleet drain`. */
export const command = defineCommand({
  operands: { node: nodeOperand },
  options: { json: { ...sharedOptions.json, help: 'print the node as JSON' }, ...adminOptions },
  details:
    'A node that has begun to put files in place finishes that.\n\nNeeds the admin token, or a named token with the role operator.',
  examples: [['fleet drain web-1', 'before its machine is taken down']],
  async run({ options, operands }, context) {
    const { api } = await openAdmin(context, options)
    const node = await createFleetApi(api.client).drain(operands.node, true)
    if (options.json) context.output.json(node)
    else context.output.print(`Rollouts leave "${node.name}" out`)
    return exitCodes.success
  }
})
