import { configRows } from '../../config/precedence.js'
import { maySend } from '../../config/token-origin.js'
import { defineCommand, exitCodes } from '../command.js'
import { loadConfiguration } from '../client/session.js'
import { sharedOptions } from '../common-options.js'

/** The command `svc config`. */
export const command = defineCommand({
  operands: {},
  options: {
    env: sharedOptions.env,
    json: { type: 'switch', help: 'print the rows as JSON' }
  },
  details:
    'Options override the environment and .env.local, which override svc.config.json, which overrides the global\n' +
    'file. For each token the last four characters are shown, and the only server that svc sends it to. Scripts\n' +
    'configured on the server override those shown here.',
  examples: [
    ['config', 'show the values that "svc push" would use here, and their sources'],
    ['config --env staging', 'show the values for svc.config.staging.json']
  ],
  async run({ options }, context) {
    const { output } = context
    const { config, layers } = await loadConfiguration(context, { flags: {}, env: options.env, project: 'optional' })
    const rows = configRows(config)
    if (options.json) {
      output.json(rows)
      return exitCodes.success
    }
    if (layers.project === null)
      output.note('No svc.config.json was found here: showing values from other sources only.')
    output.table(rows, [
      { header: 'KEY', cell: row => row.key },
      { header: 'VALUE', cell: row => row.value, shrinkTo: 12 },
      { header: 'SOURCE', cell: row => row.source },
      { header: 'FROM', cell: row => (row.from === row.source ? '' : row.from), shrinkTo: 12, paint: output.paint.dim },
      { header: 'SENT TO', cell: ({ origin }) => (origin === undefined ? '' : (origin ?? 'any server')), shrinkTo: 12 }
    ])
    const { serverUrl, adminToken, deployToken } = config
    for (const [what, token] of [
      ['admin token', adminToken],
      ['deploy token', deployToken]
    ] as const) {
      if (token === null || serverUrl === null || maySend(token, serverUrl.value)) continue
      output.warn(`the ${what} is not sent to ${serverUrl.value}: it belongs to ${token.origin}`)
    }
    return exitCodes.success
  }
})
