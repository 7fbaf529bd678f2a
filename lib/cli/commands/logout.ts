import { locateHome, writeConfig } from '../../config/home.js'
import { originOf, removeTokens } from '../../config/token-origin.js'
import { defineCommand, exitCodes } from '../command.js'
import { sharedOptions } from '../common-options.js'
import { loadConfiguration, serverUrlOf } from '../session.js'

export const command = defineCommand({
  operands: {},
  options: {
    server: sharedOptions.server,
    env: sharedOptions.env
  },
  details: 'Removes the admin token and the deploy tokens that the global configuration has for the server. Tokens stay valid on\nthe server, and variables and .env.local are not changed.',
  examples: [['logout --server https://deploy.example.com', 'forget the tokens of one server']],
  async run({ options }, context) {
    const { env, server } = options
    const { config } = await loadConfiguration(context, { flags: { server }, env, project: 'optional' })
    const address = serverUrlOf(config, context.command).value
    const home = locateHome(context.env, context.cwd)
    let removed: string[] = []
    await writeConfig(home, stored => void (removed = removeTokens(stored, address)))
    const { output } = context
    if (removed.length === 0) output.print(`No token is stored for ${originOf(address)}`)
    else output.print(`Removed from ${home.configFile} for ${originOf(address)}: ${removed.join(', ')}`)
    return exitCodes.success
  }
})
