import { defineCommand, exitCodes } from '../command.js'
import { sharedOptions } from '../common-options.js'
import { showTelemetry } from '../telemetry.js'

/** The command `svc telemetry:status`. */
export const command = defineCommand({
  operands: {},
  options: { json: sharedOptions.json },
  details: 'SVC_TELEMETRY_ENDPOINT overrides the endpoint that "svc telemetry:endpoint" stores.',
  examples: [['telemetry:status', 'show whether reports are sent, what they contain, and where they go']],
  async run({ options }, context) {
    await showTelemetry(context, options.json)
    return exitCodes.success
  }
})
