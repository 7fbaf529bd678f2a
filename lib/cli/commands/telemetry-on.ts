import { defineCommand, exitCodes } from '../command.js'
import { sharedOptions } from '../common-options.js'
import { changeTelemetry } from '../telemetry.js'

/** The command `svc telemetry:on`. */
export const command = defineCommand({
  operands: {},
  options: { json: sharedOptions.json },
  details: 'Usage statistics are on by default, but nothing is sent without an endpoint (svc telemetry:endpoint).',
  examples: [['telemetry:on', 'turn reports on again after telemetry:off']],
  async run({ options }, context) {
    await changeTelemetry(context, config => void (config.telemetryEnabled = true), options.json)
    return exitCodes.success
  }
})
