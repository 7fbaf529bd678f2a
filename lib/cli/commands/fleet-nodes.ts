import { createFleetApi } from '../client/fleet-api.js'
import { openAdmin } from '../client/session.js'
import { defineCommand, exitCodes } from '../command.js'
import { adminDetails, adminOptions } from '../common-options.js'
import { nodeColumns } from '../fleet/node-view.js'
import { findProject } from '../project-options.js'

/** The command `svc fleet nodes`. */
export const command = defineCommand({
  operands: {},
  options: {
    project: { type: 'text', value: 'id', complete: 'projects', help: 'list only the nodes of this project' },
    label: { type: 'text', value: 'key=value', help: 'list only the nodes with this label' },
    json: { type: 'switch', help: 'print the list as JSON' },
    ...adminOptions
  },
  details: `A named token that is limited to projects lists their nodes.\n\n${adminDetails}`,
  examples: [
    ['fleet nodes', 'list all nodes with what they have'],
    ['fleet nodes --label zone=eu', 'list the nodes of one zone']
  ],
  async run({ options }, context) {
    const { output } = context
    const { api } = await openAdmin(context, options)
    const projectId = options.project === undefined ? undefined : (await findProject(api, options.project)).id
    const nodes = await createFleetApi(api.client).nodes({ projectId, label: options.label })
    if (options.json) output.json(nodes)
    else if (nodes.length > 0) output.table(nodes, nodeColumns(output.paint, Date.now()))
    else if (projectId !== undefined || options.label !== undefined) output.note('No node matches.')
    else output.note('There is no node. "svc fleet enroll" prints the command that makes a machine one.')
    return exitCodes.success
  }
})
