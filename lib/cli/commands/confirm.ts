import { defineCommand, exitCodes } from '../command.js'
import { loadConfiguration, openProjectApi } from '../client/session.js'
import { projectDetails, sharedOptions } from '../common-options.js'
import { heldDeploymentId } from '../held-deployment.js'

/** The command `svc confirm`. */
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
  details: `Settles a deployment that waits to be confirmed. Without a confirmation the earlier files are put back.\n\n${projectDetails}`,
  examples: [
    ['confirm', 'confirm the deployment of the configured project'],
    ['confirm dep_abcdefghijklmnop', 'confirm one deployment']
  ],
  async run({ options, operands }, context) {
    const { env, server, project, token } = options
    const needed = operands.deployId === undefined ? 'needed' : 'optional'
    const { config } = await loadConfiguration(context, { flags: { server, project, token }, env, project: needed })
    const api = await openProjectApi(context, config)
    const deployId = operands.deployId ?? (await heldDeploymentId(api, { context, config }))
    const answer = await api.confirm(deployId)
    if (options.json) context.output.json(answer)
    else context.output.print(`Confirmed ${deployId}`)
    return exitCodes.success
  }
})
