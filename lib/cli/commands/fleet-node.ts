import { formatBytes } from '../../shared/size.js'
import { createFleetApi } from '../client/fleet-api.js'
import { openAdmin } from '../client/session.js'
import { defineCommand, exitCodes } from '../command.js'
import { adminDetails, adminOptions, sharedOptions } from '../common-options.js'
import { nodeOperand } from '../fleet/fleet-place.js'
import { labelWords, liveWords, nodeState } from '../fleet/node-view.js'

/** The command `svc fleet node`. */
export const command = defineCommand({
  operands: { node: nodeOperand },
  options: { json: { ...sharedOptions.json, help: 'print the node as JSON' }, ...adminOptions },
  details: adminDetails,
  examples: [['fleet node web-1', 'show a node and what it has of each project']],
  async run({ options, operands }, context) {
    const { output } = context
    const { api } = await openAdmin(context, options)
    const node = await createFleetApi(api.client).node(operands.node)
    if (options.json) {
      output.json(node)
      return exitCodes.success
    }
    const { paint } = output
    output.print(`${paint.bold(node.name)} (${node.id}): ${nodeState(node, Date.now())}`)
    const facts = [
      labelWords(node.labels),
      node.version === null ? '' : `svc ${node.version}`,
      node.freeBytes === null ? '' : `${formatBytes(node.freeBytes)} free`,
      `enrolled ${node.enrolledAt.slice(0, 10)}`
    ]
    output.print(facts.filter(Boolean).join(', '))
    output.print('')
    if (node.placements.length === 0) output.print('No project is placed here. "svc fleet place" places one.')
    else
      output.table(node.placements, [
        { header: 'PROJECT', cell: ({ projectName }) => projectName, shrinkTo: 8 },
        { header: 'DIRECTORY', cell: ({ deployPath }) => deployPath, shrinkTo: 10 },
        { header: 'HAS', cell: liveWords }
      ])
    return exitCodes.success
  }
})
