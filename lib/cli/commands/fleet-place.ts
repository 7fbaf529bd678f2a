import { countOf } from '../../base/text.js'
import { defineCommand, exitCodes, usage } from '../command.js'
import { createFleetApi } from '../client/fleet-api.js'
import { openAdmin } from '../client/session.js'
import { adminDetails, adminOptions, sharedOptions } from '../common-options.js'
import { labelOption, parsedLabel, placedLine } from '../fleet/fleet-place.js'
import { placementColumns } from '../fleet/node-view.js'
import { findProject } from '../project-options.js'
import { splitList } from '../terminal/words.js'

/** The command `svc fleet place`. */
export const command = defineCommand({
  operands: { project: { required: true, complete: 'projects', help: 'id or name of the project' } },
  options: {
    on: {
      type: 'text',
      value: 'node',
      repeatable: true,
      complete: 'nodes',
      help: 'node to add; separate several with commas'
    },
    label: { ...labelOption, help: 'add every node with this label' },
    path: { type: 'text', value: 'dir', help: 'directory on these nodes; default: that of the project' },
    json: { ...sharedOptions.json, help: 'print the placements as JSON' },
    ...adminOptions
  },
  details:
    'A placed project is not deployed on the server itself: a push goes to its nodes, in waves. A node that is added\n' +
    `gets the release that is desired now, which is printed. Without --on and --label, the nodes of the project are listed.\n\n${adminDetails}`,
  examples: [
    ['fleet place shop --on web-1,web-2', 'place a project on two nodes'],
    ['fleet place shop --label zone=eu --path /srv/shop', 'place it on all nodes of a zone'],
    ['fleet place shop', 'list the nodes of a project with what they have']
  ],
  async run({ options, operands }, context) {
    const { output } = context
    const { label, path, json } = options
    const names = options.on.flatMap(splitList)
    const labels = label.map(parsedLabel)
    if (path !== undefined && names.length + labels.length === 0) throw usage('--path', '--path needs --on or --label')
    const { api } = await openAdmin(context, options)
    const fleet = createFleetApi(api.client)
    const { id, name } = await findProject(api, operands.project)
    for (const word of labels) {
      const found = await fleet.nodes({ label: word })
      if (found.length === 0) throw usage('--label', `No node has the label ${word}`)
      names.push(...found.map(({ name }) => name))
    }
    const add = [...new Set(names)].map(node => ({ node, ...(path !== undefined && { deployPath: path }) }))
    const placements = await (add.length === 0 ? fleet.placements(id) : fleet.place(id, { add }))
    if (json) output.json(placements)
    else if (placements.length === 0) output.note(`"${name}" is not placed on nodes: this server deploys it itself.`)
    else {
      if (add.length > 0) {
        output.note(`"${name}" is placed on ${countOf(placements.length, 'node')}.`)
        output.note(placedLine((await fleet.rollouts({ projectId: id, limit: 1 }))[0]))
      }
      output.table(placements, placementColumns(output.paint, Date.now()))
    }
    return exitCodes.success
  }
})
