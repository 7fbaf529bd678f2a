import { defineCommand, exitCodes } from '../command.js'
import { sharedOptions } from '../common-options.js'
import { changeTelemetry } from '../telemetry.js'

export const command = defineCommand({
  operands: {},
  options: { json: sharedOptions.json },
  details: 'It is on from the beginning, and sends nothing until there is an endpoint (svc telemetry:endpoint).',
  examples: [['telemetry:on', 'allow the two reports again after telemetry:off']],
  async run({ options }, context) {
    await changeTelemetry(context, config => void (config.telemetryEnabled = true), options.json)
    return exitCodes.success
  }
})
