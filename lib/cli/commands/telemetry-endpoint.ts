import { parseHttpUrl } from '../../http/outgoing/post.js'
import { defineCommand, exitCodes, usage } from '../command.js'
import { sharedOptions } from '../common-options.js'
import { changeTelemetry } from '../telemetry.js'

/** The command `svc telemetry:endpoint`. */
export const command = defineCommand({
  operands: {
    url: { required: true, help: 'address to post reports to; "default" or "reset" removes it' }
  },
  options: { json: sharedOptions.json },
  details:
    'There is no built-in address, so nothing is sent by default. Every svc server can collect reports at\n' +
    '/api/public/telemetry/report, and shows them at /api/public/telemetry/overview.',
  examples: [
    ['telemetry:endpoint https://deploy.example.com/api/public/telemetry/report', 'send reports to your own server'],
    ['telemetry:endpoint default', 'remove the address']
  ],
  async run({ options, operands }, context) {
    const { url } = operands
    const isReset = url === 'default' || url === 'reset'
    if (!isReset && parseHttpUrl(url) === null) {
      throw usage('url', `<url> cannot be "${url}": it must be an http or https address, or "default"`)
    }
    await changeTelemetry(
      context,
      config => {
        if (isReset) delete config.telemetryEndpoint
        else config.telemetryEndpoint = url
      },
      options.json
    )
    return exitCodes.success
  }
})
