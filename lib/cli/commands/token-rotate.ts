import { tokenLimits } from '../../model/access.js'
import { endOf, handOver, openToken, outOption, tokenOperand } from '../named-tokens.js'
import { defineCommand, exitCodes, usage } from '../command.js'
import { adminDetails, adminOptions, durationOption } from '../common-options.js'

const dayMs = 24 * 60 * 60_000

/** The command `svc token rotate`. */
export const command = defineCommand({
  operands: { token: tokenOperand },
  options: {
    overlap: {
      type: 'text',
      value: 'time',
      help: 'how long the earlier secret stays valid, up to 1d; default: not at all'
    },
    days: {
      type: 'count',
      value: 'n',
      minimum: 1,
      maximum: 36_500,
      help: 'days until the new secret expires; default: as many as the earlier one had'
    },
    out: outOption,
    json: { type: 'switch', help: 'print {token, record} as JSON, with the secret' },
    ...adminOptions
  },
  details: `Gives a token a new secret. Name, role and projects stay. Its sessions of the panel end.\n\n${adminDetails}`,
  examples: [
    ['token rotate ci-shop --overlap 1h', 'replace a secret without interrupting pipelines'],
    ['token rotate ci-shop', 'replace a secret that leaked']
  ],
  async run({ options, operands }, context) {
    const { overlap, days, out, json } = options
    if (out !== undefined && json) throw usage('--out', 'Use --out or --json, not both')
    const overlapSeconds = overlap === undefined ? 0 : Math.round(durationOption('--overlap', overlap) / 1000)
    if (overlapSeconds > tokenLimits.overlapSeconds) throw usage('--overlap', '--overlap is too long: at most 1d')
    const { api, token: found } = await openToken(context, options, operands.token)
    const expiresAt = days === undefined ? undefined : new Date(Date.now() + days * dayMs).toISOString()
    const { token, record } = await api.rotateToken(found.id, { overlapSeconds, expiresAt })
    if (json) {
      context.output.json({ token, record })
      return exitCodes.success
    }
    const { name, oldExpiresAt } = record
    const old =
      oldExpiresAt === null ? 'has ended' : `is valid until ${oldExpiresAt.slice(0, 16).replace('T', ' ')} UTC`
    context.output.note(`Token "${name}" ${endOf(record, Date.now())}. The earlier secret ${old}.`)
    await handOver(token, out, context)
    return exitCodes.success
  }
})
