import { openToken, tokenOperand } from '../named-tokens.js'
import { defineCommand, exitCodes } from '../command.js'
import { adminDetails, adminOptions, sharedOptions } from '../common-options.js'
import { confirm, mustAsk } from '../terminal/prompt.js'

/** The command `svc token revoke`. */
export const command = defineCommand({
  operands: { token: tokenOperand },
  options: {
    yes: { ...sharedOptions.yes, help: 'do not ask before revoking the token; required without a terminal' },
    ...adminOptions
  },
  details: `Ends a token at once, with its streams and its sessions of the panel.\n\n${adminDetails}`,
  examples: [['token revoke ci-shop --yes', 'end a token that leaked']],
  async run({ options, operands }, context) {
    const { host, output } = context
    if (!options.yes) mustAsk(host, 'Revoking a token needs a confirmation', 'use --yes')
    const { api, token } = await openToken(context, options, operands.token)
    if (!options.yes && !(await confirm(host, `Revoke the token "${token.name}"?`))) {
      output.note('Nothing was changed.')
      return exitCodes.failed
    }
    await api.revokeToken(token.id)
    output.print(`The token "${token.name}" was revoked`)
    return exitCodes.success
  }
})
