import { defineCommand, exitCodes } from '../command.js'
import { sharedOptions } from '../common-options.js'
import { changeTelemetry } from '../telemetry.js'

export const command = defineCommand({
  operands: {},
  options: { json: sharedOptions.json },
  details: 'Nothing is sent then, whatever endpoint is configured, SVC_TELEMETRY_ENDPOINT included.',
  examples: [['telemetry:off', 'send nothing from this machine']],
  async run({ options }, context) {
    await changeTelemetry(context, config => void (config.telemetryEnabled = false), options.json)
    return exitCodes.success
  }
})
