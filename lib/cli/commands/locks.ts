import { loadConfiguration, openProjectApi } from '../client/session.js'
import { defineCommand, exitCodes } from '../command.js'
import { projectDetails, sharedOptions } from '../common-options.js'
import { relativeTime } from '../terminal/words.js'

/** The command `svc locks`. */
export const command = defineCommand({
  operands: {},
  options: {
    env: sharedOptions.env,
    server: sharedOptions.server,
    token: sharedOptions.token,
    json: { type: 'switch', help: 'print the list as JSON' }
  },
  details: `Projects in maintenance are listed, too: they have no end. With a deploy token, only what concerns its project\nis listed.\n\n${projectDetails}`,
  examples: [['locks', 'list the locks of the configured server']],
  async run({ options }, context) {
    const { output } = context
    const { env, server, token, json } = options
    const { config } = await loadConfiguration(context, { flags: { server, token }, env, project: 'optional' })
    const locks = await (await openProjectApi(context, config)).locksAndMaintenance()
    if (json) output.json(locks)
    else if (locks.length === 0) output.note('Nothing is locked, and no project is in maintenance.')
    else
      output.table(locks, [
        { header: 'KIND', cell: ({ kind }) => kind },
        { header: 'PROJECT', cell: ({ projectName }) => projectName ?? 'the whole server', shrinkTo: 10 },
        { header: 'BY', cell: ({ owner }) => owner },
        { header: 'SINCE', cell: ({ createdAt }) => relativeTime(createdAt, Date.now()) },
        { header: 'UNTIL', cell: ({ expiresAt }) => (expiresAt === null ? '-' : minuteOf(expiresAt)) },
        { header: 'REASON', cell: ({ reason }) => reason ?? '', shrinkTo: 10 }
      ])
    return exitCodes.success
  }
})

function minuteOf(instant: string): string {
  return `${instant.slice(0, 16).replace('T', ' ')} UTC`
}
