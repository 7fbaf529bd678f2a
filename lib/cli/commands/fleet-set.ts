import { defineCommand, exitCodes, usage } from '../command.js'
import { createFleetApi } from '../client/fleet-api.js'
import { openAdmin } from '../client/session.js'
import { adminDetails, adminOptions, sharedOptions } from '../common-options.js'
import { labelOption, nodeOperand, readLabels } from '../fleet/fleet-place.js'
import { labelWords } from '../fleet/node-view.js'

/** The command `svc fleet set`. */
export const command = defineCommand({
  operands: { node: nodeOperand },
  options: {
    name: { type: 'text', value: 'name', help: 'new name, one word' },
    label: { ...labelOption, help: 'set a label; without a value (zone=) remove it' },
    json: { ...sharedOptions.json, help: 'print the node as JSON' },
    ...adminOptions
  },
  details: `Other labels stay. A rollout that has begun keeps its waves.\n\n${adminDetails}`,
  examples: [['fleet set web-1 --label zone=eu --label beta=', 'set one label, and remove another']],
  async run({ options, operands }, context) {
    const { name, label, json } = options
    const given = readLabels(label)
    if (name === undefined && label.length === 0) throw usage('--name', 'Nothing to change: give --name or --label')
    const { api } = await openAdmin(context, options)
    const fleet = createFleetApi(api.client)
    const before = label.length === 0 ? {} : (await fleet.node(operands.node)).labels
    const labels = Object.fromEntries(Object.entries({ ...before, ...given }).filter(([, value]) => value !== ''))
    const change = { ...(name !== undefined && { name }), ...(label.length > 0 && { labels }) }
    const node = await fleet.updateNode(operands.node, change)
    if (json) context.output.json(node)
    else context.output.print(`Changed "${node.name}": ${labelWords(node.labels) || 'no labels'}`)
    return exitCodes.success
  }
})
