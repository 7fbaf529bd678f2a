import { findNamedToken } from '../named-tokens.js'
import { createApi } from '../client/api.js'
import { withLocalApi } from '../client/local.js'
import { defineCommand, exitCodes } from '../command.js'
import { locateHome } from '../../config/home.js'

/** The command `svc admin reset-second-factor`. */
export const command = defineCommand({
  operands: { token: { required: true, help: 'name or id of the token' } },
  options: {},
  details:
    'For a user who lost the authenticator and the recovery codes. Works on the data directory (SVC_HOME), whether the\n' +
    'server is running or not. The audit log records the removal.',
  examples: [['admin reset-second-factor ana', 'let a user sign in without a code']],
  async run({ operands }, context) {
    const home = locateHome(context.env, context.cwd)
    await withLocalApi(context, home, async ({ client }) => {
      const token = await findNamedToken(createApi(client), operands.token)
      await client.json({ method: 'DELETE', path: `/api/tokens/${token.id}/second-factor` })
      context.output.print(`The second factor of the token "${token.name}" was removed`)
    })
    return exitCodes.success
  }
})
