import { handOver, outOption } from '../named-tokens.js'
import { defineCommand, exitCodes, usage } from '../command.js'
import { createFleetApi } from '../client/fleet-api.js'
import { openAdmin } from '../client/session.js'
import { adminDetails, adminOptions, durationOption } from '../common-options.js'
import { labelOption, readLabels } from '../fleet/fleet-place.js'

/** The command `svc fleet enroll`. */
export const command = defineCommand({
  operands: {},
  options: {
    name: { type: 'text', value: 'name', help: 'name of the node; default: the host name of the machine' },
    label: { ...labelOption, help: 'label of the node' },
    for: { type: 'text', value: 'time', help: 'how long the token is valid, from 1m to 7d; default: 1h' },
    out: { ...outOption, help: 'write the token to a new file that only you can read, instead of the terminal' },
    json: { type: 'switch', help: 'print {enrollment, token, command} as JSON, with the token' },
    ...adminOptions
  },
  details:
    'Prints a token with which one machine becomes a node. Run "svc agent" with it on that machine. The token can be\n' +
    `used once. It contains the key of this server, so the machine takes orders from this server only.\n\n${adminDetails}`,
  examples: [
    ['fleet enroll --name web-1 --label zone=eu', 'print the command that makes a machine the node web-1'],
    ['fleet enroll --for 10m --out node.token', 'write a token to a file, for "svc agent --enroll -"']
  ],
  async run({ options }, context) {
    const { name, label, out, json } = options
    const { output } = context
    if (out !== undefined && json) throw usage('--out', 'Use --out or --json, not both')
    const labels = readLabels(label)
    const seconds = options.for === undefined ? undefined : Math.round(durationOption('--for', options.for) / 1000)
    const { api } = await openAdmin(context, options)
    const { enrollment, token } = await createFleetApi(api.client).enroll({ name, labels, seconds })
    // An argument would be in the list of processes.
    const agent = `svc agent --hub ${api.address}`
    const command = `SVC_ENROLL_TOKEN=${token} ${agent}`
    if (json) {
      output.json({ enrollment, token, command })
      return exitCodes.success
    }
    output.note(
      `One machine may become a node until ${enrollment.expiresAt.slice(0, 16).replace('T', ' ')} UTC. On it, run:`
    )
    if (out === undefined) {
      output.print(command)
      return exitCodes.success
    }
    output.note(`${agent} --enroll - < ${out}`)
    await handOver(token, out, context)
    return exitCodes.success
  }
})
