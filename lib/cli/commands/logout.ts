import { locateHome, writeConfig } from '../../config/home.js'
import { originOf, removeTokens } from '../../config/token-origin.js'
import { defineCommand, exitCodes } from '../command.js'
import { sharedOptions } from '../common-options.js'
import { loadConfiguration, serverUrlOf } from '../client/session.js'

/** The command `svc logout`. */
export const command = defineCommand({
  operands: {},
  options: {
    server: sharedOptions.server,
    env: sharedOptions.env
  },
  details:
    'Removes the admin token and the deploy tokens of the server from the global configuration. The tokens stay\n' +
    'valid on the server. Environment variables and .env.local do not change.',
  examples: [['logout --server https://deploy.example.com', 'remove the stored tokens of a server']],
  async run({ options }, context) {
    const { env, server } = options
    const { config } = await loadConfiguration(context, { flags: { server }, env, project: 'optional' })
    const address = serverUrlOf(config, context.command).value
    const home = locateHome(context.env, context.cwd)
    let removed: string[] = []
    await writeConfig(home, stored => void (removed = removeTokens(stored, address)))
    const { output } = context
    if (removed.length === 0) output.print(`No tokens are stored for ${originOf(address)}`)
    else output.print(`Removed from ${home.configFile} for ${originOf(address)}: ${removed.join(', ')}`)
    return exitCodes.success
  }
})
