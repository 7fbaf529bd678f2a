import { oneLine } from '../../base/one-line.js'
import { maskToken } from '../../config/precedence.js'
import type { Project } from '../../model/project.js'
import type { TokenHolder } from '../../model/token-holder.js'
import type { Api } from '../api.js'
import { defineCommand, exitCodes } from '../command.js'
import { deploymentColumns, paintStatus } from '../deployment-table.js'
import { loadConfiguration, openProjectApi, projectIdOf } from '../session.js'
import { projectDetails, sharedOptions } from '../common-options.js'

export const command = defineCommand({
  operands: {
    projectId: { complete: 'projects', help: 'the project; else the one of svc.config.json' }
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
    token: sharedOptions.token,
    json: { type: 'switch', help: 'print {project, deployments} as JSON, the deploy token masked' }
  },
  details: projectDetails,
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
    const api = await openProjectApi(context, config)
    const [project, deployments] = await Promise.all([projectOf(api, projectId), api.deployments({ projectId, limit, branch, commit })])
    if (options.json) {
      output.json({ project: 'token' in project ? { ...project, token: maskToken(project.token) } : project, deployments })
      return exitCodes.success
    }
    const { paint } = output
    const [latest] = deployments
    const isFiltered = branch !== undefined || commit !== undefined
    const since = !isFiltered && latest?.backgroundFailed ? `, ${paint.red('its script failed in the background')}` : ''
    output.print(`${paint.bold(oneLine(project.name))} (${project.id}): ${paintStatus(paint, project.status)}${since}`)
    output.print(oneLine('deployPath' in project ? `${project.env} → ${project.deployPath}` : project.env))
    output.print('')
    if (deployments.length === 0) output.print(isFiltered ? 'No deployment matches.' : 'Nothing has been deployed yet.')
    else output.table(deployments, deploymentColumns(paint, Date.now()))
    return exitCodes.success
  }
})

/** The whole record for the admin token; for a deploy token what it may know of its own project. */
async function projectOf(api: Api, projectId: string): Promise<Project | NonNullable<TokenHolder['project']>> {
  const holder = await api.whoami()
  return holder?.project?.id === projectId ? holder.project : api.project(projectId)
}
