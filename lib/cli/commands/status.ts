import { oneLine } from '../../base/one-line.js'
import { maskToken } from '../../config/precedence.js'
import { defineCommand, exitCodes } from '../command.js'
import { deploymentColumns, paintStatus } from '../deployment-table.js'
import { loadConfiguration, openAdminApi, projectIdOf } from '../session.js'
import { adminDetails, sharedOptions } from '../common-options.js'

export const command = defineCommand({
  operands: {
    projectId: { help: 'the project; else the one of svc.config.json' }
  },
  options: {
    limit: {
      type: 'count',
      alias: 'n',
      value: 'number',
      default: 5,
      minimum: 1,
      maximum: 50,
      help: 'so many deployments'
    },
    branch: { type: 'text', value: 'name', help: 'only deployments of this git branch' },
    commit: { type: 'text', value: 'id', help: 'only deployments of this git commit; at least 4 digits' },
    env: sharedOptions.env,
    server: sharedOptions.server,
    token: sharedOptions.adminToken,
    json: { type: 'switch', help: 'print {project, deployments} as JSON, the deploy token masked' }
  },
  details: adminDetails,
  examples: [
    ['status', 'the project of this directory and its last five deployments'],
    ['status proj_abcdefghijklmnop --limit 20', 'another project, further back'],
    ['status --branch main', 'what came from one branch']
  ],
  async run({ options, operands }, context) {
    const { output } = context
    const { env, server, token, limit, branch, commit } = options
    const { config } = await loadConfiguration(context, {
      flags: { server, token, project: operands.projectId },
      env,
      project: operands.projectId === undefined ? 'needed' : 'optional'
    })
    const projectId = projectIdOf(context, config)
    const api = await openAdminApi(context, config)
    const [project, deployments] = await Promise.all([api.project(projectId), api.deployments({ projectId, limit, branch, commit })])
    if (options.json) {
      output.json({ project: { ...project, token: maskToken(project.token) }, deployments })
      return exitCodes.success
    }
    const { paint } = output
    const [latest] = deployments
    const isFiltered = branch !== undefined || commit !== undefined
    const since = !isFiltered && latest?.backgroundFailed ? `, ${paint.red('its script failed in the background')}` : ''
    output.print(`${paint.bold(oneLine(project.name))} (${project.id}): ${paintStatus(paint, project.status)}${since}`)
    output.print(oneLine(`${project.env} → ${project.deployPath}`))
    output.print('')
    if (deployments.length === 0) output.print(isFiltered ? 'No deployment matches.' : 'Nothing has been deployed yet.')
    else output.table(deployments, deploymentColumns(paint, Date.now()))
    return exitCodes.success
  }
})
