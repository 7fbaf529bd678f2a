import { defineCommand, exitCodes, usage } from '../command.js'
import { createFleetApi } from '../client/fleet-api.js'
import { openAdmin } from '../client/session.js'
import { adminDetails, adminOptions, sharedOptions } from '../common-options.js'
import { placementColumns } from '../fleet/node-view.js'
import { findProject } from '../project-options.js'
import { splitList } from '../terminal/words.js'

/** The command `svc fleet unplace`. */
export const command = defineCommand({
  operands: { project: { required: true, complete: 'projects', help: 'id or name of the project' } },
  options: {
    from: {
      type: 'text',
      value: 'node',
      repeatable: true,
      complete: 'nodes',
      help: 'node to remove; separate several with commas'
    },
    all: { type: 'switch', help: 'remove the project from every node' },
    json: { ...sharedOptions.json, help: 'print the placements that are left as JSON' },
    ...adminOptions
  },
  details: `The files on the nodes stay. A project without nodes is deployed by the server itself again.\n\n${adminDetails}`,
  examples: [['fleet unplace shop --from web-2', 'take a project off a node']],
  async run({ options, operands }, context) {
    const { output } = context
    const names = options.from.flatMap(splitList)
    if (names.length === 0 && !options.all) throw usage('--from', 'Name a node with --from, or use --all')
    if (names.length > 0 && options.all) throw usage('--all', 'Use --from or --all, not both')
    const { api } = await openAdmin(context, options)
    const fleet = createFleetApi(api.client)
    const { id, name } = await findProject(api, operands.project)
    const remove = options.all ? (await fleet.placements(id)).map(({ nodeId }) => nodeId) : names
    const placements = remove.length === 0 ? [] : await fleet.place(id, { remove })
    if (options.json) output.json(placements)
    else if (placements.length === 0) output.print(`"${name}" is not placed on nodes: this server deploys it itself`)
    else output.table(placements, placementColumns(output.paint, Date.now()))
    return exitCodes.success
  }
})
