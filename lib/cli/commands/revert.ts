import { defineCommand, exitCodes } from '../command.js'
import { loadConfiguration, openProjectApi } from '../client/session.js'
import { projectDetails, sharedOptions } from '../common-options.js'
import { heldDeploymentId } from '../held-deployment.js'

/** The command `svc revert`. */
export const command = defineCommand({
  operands: {
    deployId: { complete: 'deployments', help: 'id of the deployment; default: the one of the project that waits' }
  },
  options: {
    env: sharedOptions.env,
    server: sharedOptions.server,
    project: sharedOptions.project,
    token: sharedOptions.token,
    json: sharedOptions.json
  },
  details:
    'Puts the earlier files back, while the checks of the deployment run or while it waits to be confirmed. For a\n' +
    `deployment that is settled, use "svc rollback".\n\n${projectDetails}`,
  examples: [
    ['revert', 'put back the files before the deployment of the configured project'],
    ['revert dep_abcdefghijklmnop', 'put back the files before one deployment']
  ],
  async run({ options, operands }, context) {
    const { env, server, project, token } = options
    const needed = operands.deployId === undefined ? 'needed' : 'optional'
    const { config } = await loadConfiguration(context, { flags: { server, project, token }, env, project: needed })
    const api = await openProjectApi(context, config)
    const deployId = operands.deployId ?? (await heldDeploymentId(api, { context, config }))
    const answer = await api.revert(deployId)
    if (options.json) context.output.json(answer)
    else
      context.output.print(
        `${answer.success ? 'Reverted' : 'Cannot revert'} ${deployId}: ${answer.deployment.errorMessage ?? ''}`
      )
    return answer.success ? exitCodes.success : exitCodes.failed
  }
})
