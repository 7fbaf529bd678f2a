import { oneLine } from '../../base/text.js'
import type { Deployment } from '../../model/deployment.js'
import type { ShownProject } from '../../model/project.js'
import type { ListedRollout } from '../../model/rollout.js'
import type { TokenHolder } from '../../model/token-holder.js'
import type { Api } from '../client/api.js'
import { withMaskedToken } from '../project-options.js'
import { defineCommand, exitCodes } from '../command.js'
import { deploymentColumns, paintStatus } from '../terminal/deployments.js'
import { loadConfiguration, openProjectApi, projectIdOf } from '../client/session.js'
import { projectDetails, sharedOptions } from '../common-options.js'
import { countWords, paintState, stateWords } from '../fleet/wave-view.js'

/** The command `svc status`. */
export const command = defineCommand({
  operands: {
    projectId: { complete: 'projects', help: 'the project; default: the one in svc.config.json' }
  },
  options: {
    limit: {
      type: 'count',
      alias: 'n',
      value: 'number',
      default: 5,
      minimum: 1,
      maximum: 50,
      help: 'number of deployments to show'
    },
    branch: { type: 'text', value: 'name', help: 'show only deployments of this git branch' },
    commit: { type: 'text', value: 'id', help: 'show only deployments of this git commit; at least 4 digits' },
    env: sharedOptions.env,
    server: sharedOptions.server,
    token: sharedOptions.token,
    json: { type: 'switch', help: 'print {project, deployments, rollout} as JSON, with the deploy token masked' }
  },
  details: projectDetails,
  examples: [
    ['status', 'show the project in this directory and its five latest deployments'],
    ['status proj_abcdefghijklmnop --limit 20', 'show more deployments of another project'],
    ['status --branch main', 'show the deployments of a branch']
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
    const [project, deployments] = await Promise.all([
      projectOf(api, projectId),
      api.deployments({ projectId, limit, branch, commit })
    ])
    const rollout = await newestRollout(api, deployments)
    if (options.json) {
      output.json({
        project: 'token' in project ? withMaskedToken(project) : project,
        deployments,
        ...(rollout !== null && { rollout })
      })
      return exitCodes.success
    }
    const { paint } = output
    const [latest] = deployments
    const isFiltered = branch !== undefined || commit !== undefined
    const since =
      !isFiltered && latest?.backgroundFailed ? `, ${paint.red('the post-deploy script failed in the background')}` : ''
    output.print(`${paint.bold(oneLine(project.name))} (${project.id}): ${paintStatus(paint, project.status)}${since}`)
    output.print(oneLine('deployPath' in project ? `${project.env} → ${project.deployPath}` : project.env))
    if (rollout !== null) {
      const words = `${stateWords(rollout, Date.now())} (${countWords(rollout.counts)})`
      output.print(`rollout ${rollout.id}: ${paintState(paint, rollout, words)}`)
    }
    output.print('')
    if (deployments.length === 0) output.print(isFiltered ? 'No deployment matches.' : 'Nothing has been deployed yet.')
    else output.table(deployments, deploymentColumns(paint, Date.now()))
    return exitCodes.success
  }
})

/** Returns the rollout of the newest deployment; null: the server deployed it itself. */
async function newestRollout(api: Api, [latest]: readonly Deployment[]): Promise<ListedRollout | null> {
  if (latest?.steps?.some(({ name }) => (name as string) === 'rollout') !== true) return null
  return api.rolloutOf(latest.id)
}

/** Returns the whole record for the admin token, or for a deploy token the facts that it may know of its project. */
async function projectOf(api: Api, projectId: string): Promise<ShownProject | NonNullable<TokenHolder['project']>> {
  const holder = await api.whoami()
  return holder?.project?.id === projectId ? holder.project : api.project(projectId)
}
