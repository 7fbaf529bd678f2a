import { maskToken } from '../../config/precedence.js'
import { defineCommand, exitCodes } from '../command.js'
import type { ListedDeployment } from '../../model/deployment.js'
import { paintStatus, shownMessage } from '../deployment-table.js'
import { originWords } from '../origin-words.js'
import { loadConfiguration, openAdminApi } from '../session.js'
import { adminDetails, sharedOptions } from '../common-options.js'
import { relativeTime } from '../units.js'

export const command = defineCommand({
  operands: {},
  options: {
    env: sharedOptions.env,
    server: sharedOptions.server,
    token: sharedOptions.adminToken,
    json: { type: 'switch', help: 'print the projects as JSON, their deploy tokens masked' }
  },
  details: adminDetails,
  examples: [
    ['list', 'list the projects of the configured server'],
    ['list --json --server https://deploy.example.com', 'the same of another server, for a script']
  ],
  async run({ options }, context) {
    const { output } = context
    const { env, server, token } = options
    const { config } = await loadConfiguration(context, { flags: { server, token }, env, project: 'optional' })
    const api = await openAdminApi(context, config)
    const projects = await api.projects()
    const newest = projects.length === 0 ? new Map<string, ListedDeployment>() : await api.newestDeployments()
    if (options.json) {
      const lastOf = (id: string): ListedDeployment | null => newest.get(id) ?? null
      output.json(projects.map(project => ({ ...project, token: maskToken(project.token), lastDeployment: lastOf(project.id) })))
      return exitCodes.success
    }
    if (projects.length === 0) {
      output.note('There are no projects yet: the panel, or POST /api/projects, creates one.')
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
