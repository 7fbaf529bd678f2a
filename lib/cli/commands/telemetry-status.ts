import { defineCommand, exitCodes } from '../command.js'
import { sharedOptions } from '../common-options.js'
import { showTelemetry } from '../telemetry.js'

export const command = defineCommand({
  operands: {},
  options: { json: sharedOptions.json },
  details: 'SVC_TELEMETRY_ENDPOINT counts more than what "svc telemetry:endpoint" has kept.',
  examples: [['telemetry:status', 'whether anything leaves this machine, what, and where to']],
  async run({ options }, context) {
    await showTelemetry(context, options.json)
    return exitCodes.success
  }
})
