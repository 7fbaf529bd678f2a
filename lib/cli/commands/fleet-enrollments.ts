import { createFleetApi } from '../client/fleet-api.js'
import { openAdmin } from '../client/session.js'
import { defineCommand, exitCodes } from '../command.js'
import { adminDetails, adminOptions } from '../common-options.js'
import { labelWords } from '../fleet/node-view.js'

/** The command `svc fleet enrollments`. */
export const command = defineCommand({
  operands: {},
  options: {
    revoke: { type: 'text', value: 'id', help: 'revoke this token instead of listing all' },
    json: { type: 'switch', help: 'print the list as JSON' },
    ...adminOptions
  },
  details: `A token leaves the list when a machine has used it, or when it expires.\n\n${adminDetails}`,
  examples: [
    ['fleet enrollments', 'list the tokens with which machines may become nodes'],
    ['fleet enrollments --revoke enr_abcdefghijklmnop', 'revoke a token']
  ],
  async run({ options: { revoke, json, ...options } }, context) {
    const { output } = context
    const { api } = await openAdmin(context, options)
    const fleet = createFleetApi(api.client)
    if (revoke !== undefined) {
      await fleet.revokeEnrollment(revoke)
      output.print(`The enrollment token ${revoke} was revoked`)
      return exitCodes.success
    }
    const enrollments = await fleet.enrollments()
    if (json) output.json(enrollments)
    else if (enrollments.length === 0)
      output.note('There is no valid enrollment token. "svc fleet enroll" creates one.')
    else
      output.table(enrollments, [
        { header: 'ID', cell: ({ id }) => id },
        { header: 'NODE', cell: ({ name }) => name ?? 'its host name' },
        { header: 'LABELS', cell: ({ labels }) => labelWords(labels), shrinkTo: 8 },
        { header: 'BY', cell: ({ createdBy }) => createdBy, shrinkTo: 8 },
        { header: 'UNTIL', cell: ({ expiresAt }) => `${expiresAt.slice(0, 16).replace('T', ' ')} UTC` }
      ])
    return exitCodes.success
  }
})
