import { defineCommand, exitCodes } from '../command.js'
import { loadConfiguration, openProjectApi } from '../session.js'
import { projectDetails, sharedOptions } from '../common-options.js'

export const command = defineCommand({
  operands: {
    deployId: { required: true, complete: 'deployments', help: 'the deployment, as "svc status" shows it' }
  },
  options: {
    env: sharedOptions.env,
    server: sharedOptions.server,
    project: sharedOptions.project,
    token: sharedOptions.token,
    json: sharedOptions.json
  },
  details: `Its script is stopped with everything it started, and it counts as failed.\n\n${projectDetails}`,
  examples: [['cancel dep_abcdefghijklmnop', 'stop a deployment that hangs']],
  async run({ options, operands }, context) {
    const { env, server, project, token } = options
    const { config } = await loadConfiguration(context, { flags: { server, project, token }, env, project: 'optional' })
    const answer = await (await openProjectApi(context, config)).cancel(operands.deployId)
    if (options.json) context.output.json(answer)
    else context.output.print(`${operands.deployId} is cancelled`)
    return exitCodes.success
  }
})
