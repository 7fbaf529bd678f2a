import { loadConfiguration, openProjectApi } from '../client/session.js'
import { defineCommand, exitCodes } from '../command.js'
import { projectDetails, sharedOptions } from '../common-options.js'
import { relativeTime } from '../terminal/units.js'

/** The command `svc locks`. */
export const command = defineCommand({
  operands: {},
  options: {
    env: sharedOptions.env,
    server: sharedOptions.server,
    token: sharedOptions.token,
    json: { type: 'switch', help: 'print the locks as JSON' }
  },
  details: `With a deploy token, only the locks that concern its project are listed.\n\n${projectDetails}`,
  examples: [['locks', 'list the locks of the configured server']],
  async run({ options }, context) {
    const { output } = context
    const { env, server, token, json } = options
    const { config } = await loadConfiguration(context, { flags: { server, token }, env, project: 'optional' })
    const locks = await (await openProjectApi(context, config)).locks()
    if (json) output.json(locks)
    else if (locks.length === 0) output.note('Nothing is locked.')
    else
      output.table(locks, [
        { header: 'LOCKED', cell: ({ projectName }) => projectName ?? 'the whole server', shrinkTo: 10 },
        { header: 'BY', cell: ({ owner }) => owner },
        { header: 'SINCE', cell: ({ createdAt }) => relativeTime(createdAt, Date.now()) },
        { header: 'UNTIL', cell: ({ expiresAt }) => `${expiresAt.slice(0, 16).replace('T', ' ')} UTC` },
        { header: 'REASON', cell: ({ reason }) => reason, shrinkTo: 10 }
      ])
    return exitCodes.success
  }
})
