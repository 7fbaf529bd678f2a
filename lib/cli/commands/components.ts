import { oneLine } from '../../base/text.js'
import { openProject } from '../client/session.js'
import { defineCommand, exitCodes, type Family, option, toggle } from '../command.js'
import { projectDetails, serverOptions } from '../common-options.js'
import { relativeTime } from '../terminal/words.js'

/** Names of projects in a line of output. */
const shownProjects = 5

/** The command that finds where a component is in place. */
export const commands = {
  'search-components': defineCommand({
    operands: { name: { required: true, help: 'part of the name or of the package URL, whatever its case' } },
    options: {
      version: option('version', 'only this version; 2.14 also finds 2.14.1'),
      ...serverOptions,
      json: toggle('print the answer as JSON')
    },
    details:
      'Searches the lists of components (SBOM) that were sent with the releases that are in place now, on the server and on\n' +
      'nodes. It says which projects have sent none, because nothing is known of these. A deploy token searches its own\n' +
      `project. The exit code is 1 if nothing was found.\n\n${projectDetails('viewer')}`,
    examples: [
      ['search-components log4j', 'find every release in place that contains it'],
      ['search-components log4j-core --version 2.14', 'find 2.14, 2.14.0 and 2.14.1']
    ],
    async run({ options, operands }, context) {
      const { version, json, ...server } = options
      const { output } = context
      const { client } = await openProject(context, server)
      const answer = await client.call('GET /api/components', {
        query: { name: operands.name, ...(version !== undefined && { version }) }
      })
      const { components, unknown, searched, truncated } = answer
      if (json) output.json(answer)
      else {
        output.list(false, components, {
          empty: `Not found in ${searched === 1 ? 'the list' : `the ${searched} lists`} of components of what is in place`,
          columns: [
            { header: 'PROJECT', cell: ({ projectName }) => projectName, shrinkTo: 24 },
            { header: 'COMPONENT', cell: ({ name }) => name, shrinkTo: 16 },
            { header: 'VERSION', cell: ({ version }) => version ?? '-' },
            { header: 'RELEASE', cell: ({ deployId }) => deployId },
            { header: 'SINCE', cell: ({ since }) => relativeTime(since, Date.now()), drop: 'last' },
            { header: 'WHERE', cell: each => placeOf(each), shrinkTo: 10, drop: 'last' }
          ]
        })
        if (truncated) output.note(`Only the first ${components.length} are listed`)
        if (unknown.length > 0) {
          const names = unknown.slice(0, shownProjects).map(({ projectName }) => oneLine(projectName))
          const more = unknown.length - names.length
          output.note(`Without a list of components: ${names.join(', ')}${more === 0 ? '' : ` and ${more} more`}`)
        }
      }
      return components.length === 0 ? exitCodes.failed : exitCodes.success
    }
  })
} satisfies Family

function placeOf({ target, nodes, nodeCount }: { target: string | null; nodes: string[]; nodeCount: number }): string {
  if (nodeCount === 0) return target ?? 'the server'
  const more = nodeCount - nodes.length
  return `${nodes.join(', ')}${more > 0 ? ` and ${more} more` : ''}`
}
