import { parseHttpUrl } from '../../notify/post.js'
import { usage } from '../args.js'
import { defineCommand, exitCodes } from '../command.js'
import { sharedOptions } from '../common-options.js'
import { changeTelemetry } from '../telemetry.js'

export const command = defineCommand({
  operands: {
    url: { required: true, help: 'the address reports are posted to; "default" or "reset" removes it' }
  },
  options: { json: sharedOptions.json },
  details:
    'There is no built-in address: without one nothing is sent. Any svc server collects the reports of a fleet at\n' +
    '/api/public/telemetry/report and answers /api/public/telemetry/overview.',
  examples: [
    ['telemetry:endpoint https://deploy.example.com/api/public/telemetry/report', 'report to a server of your own'],
    ['telemetry:endpoint default', 'back to none']
  ],
  async run({ options, operands }, context) {
    const { url } = operands
    const isReset = url === 'default' || url === 'reset'
    if (!isReset && parseHttpUrl(url) === null) {
      throw usage('url', `the endpoint cannot be "${url}": it is an http or https address, or "default"`)
    }
    await changeTelemetry(context, config => {
      if (isReset) delete config.telemetryEndpoint
      else config.telemetryEndpoint = url
    }, options.json)
    return exitCodes.success
  }
})
