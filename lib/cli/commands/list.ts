import { withMaskedToken } from '../project-options.js'
import { defineCommand, exitCodes } from '../command.js'
import type { ListedDeployment } from '../../model/deployment.js'
import { originWords, paintStatus, shownMessage } from '../terminal/deployments.js'
import { openAdmin } from '../client/session.js'
import { adminDetails, adminOptions } from '../common-options.js'
import { relativeTime } from '../terminal/words.js'

/** The command `svc list`. */
export const command = defineCommand({
  operands: {},
  options: {
    ...adminOptions,
    json: { type: 'switch', help: 'print the projects as JSON, with deploy tokens masked' }
  },
  details: adminDetails,
  examples: [
    ['list', 'list the projects of the configured server'],
    ['list --json --server https://deploy.example.com', 'list the projects of another server, for a script']
  ],
  async run({ options }, context) {
    const { output } = context
    const { api } = await openAdmin(context, options)
    const projects = await api.projects()
    const newest = projects.length === 0 ? new Map<string, ListedDeployment>() : await api.newestDeployments()
    if (options.json) {
      const lastOf = (id: string): ListedDeployment | null => newest.get(id) ?? null
      output.json(projects.map(project => ({ ...withMaskedToken(project), lastDeployment: lastOf(project.id) })))
      return exitCodes.success
    }
    if (projects.length === 0) {
      output.note('There are no projects yet. Use "svc projects create <name> --path <dir>" to create one.')
      return exitCodes.success
    }
    const nowMs = Date.now()
    output.table(projects, [
      { header: 'PROJECT', cell: project => project.id },
      { header: 'NAME', cell: project => project.name, shrinkTo: 10 },
      {
        header: 'STATUS',
        cell: ({ status }) => status,
        paint: (text, { status }) => paintStatus(output.paint, status, text)
      },
      { header: 'ENV', cell: project => project.env, shrinkTo: 6 },
      { header: 'LAST DEPLOYED', cell: project => relativeTime(project.lastDeployAt, nowMs) },
      { header: 'LAST MESSAGE', cell: ({ id }) => lastMessage(newest.get(id)), shrinkTo: 8 },
      { header: 'COMMIT', cell: ({ id }) => originWords(newest.get(id)?.provenance), shrinkTo: 8 },
      { header: 'TARGET', cell: project => project.deployPath, shrinkTo: 10 }
    ])
    return exitCodes.success
  }
})

function lastMessage(row: ListedDeployment | undefined): string {
  return row === undefined ? '' : shownMessage(row)
}
