import { defineCommand, exitCodes } from '../command.js'
import { loadConfiguration, openProjectApi } from '../client/session.js'
import { projectDetails, sharedOptions } from '../common-options.js'

/** The command `svc cancel`. */
export const command = defineCommand({
  operands: {
    deployId: { required: true, complete: 'deployments', help: 'id of the deployment; "svc status" shows it' }
  },
  options: {
    env: sharedOptions.env,
    server: sharedOptions.server,
    project: sharedOptions.project,
    token: sharedOptions.token,
    json: sharedOptions.json
  },
  details: `Stops the script of the deployment and every process that it started. The deployment ends as failed.\n\n${projectDetails}`,
  examples: [['cancel dep_abcdefghijklmnop', 'cancel a deployment that hangs']],
  async run({ options, operands }, context) {
    const { env, server, project, token } = options
    const { config } = await loadConfiguration(context, { flags: { server, project, token }, env, project: 'optional' })
    const answer = await (await openProjectApi(context, config)).cancel(operands.deployId)
    if (options.json) context.output.json(answer)
    else context.output.print(`Cancelled ${operands.deployId}`)
    return exitCodes.success
  }
})
