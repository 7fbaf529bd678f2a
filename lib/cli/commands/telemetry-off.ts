import { defineCommand, exitCodes } from '../command.js'
import { sharedOptions } from '../common-options.js'
import { changeTelemetry } from '../telemetry.js'

/** The command `svc telemetry:off`. */
export const command = defineCommand({
  operands: {},
  options: { json: sharedOptions.json },
  details: 'No reports are sent after this, even if an endpoint is configured (SVC_TELEMETRY_ENDPOINT, too).',
  examples: [['telemetry:off', 'stop sending reports from this machine']],
  async run({ options }, context) {
    await changeTelemetry(context, config => void (config.telemetryEnabled = false), options.json)
    return exitCodes.success
  }
})
