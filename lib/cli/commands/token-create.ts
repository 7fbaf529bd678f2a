import { accessRoles, type AccessRole } from '../../model/access.js'
import { endOf, handOver, outOption, projectIdsOf, scopeOf } from '../named-tokens.js'
import { defineCommand, exitCodes, usage } from '../command.js'
import { openAdmin } from '../client/session.js'
import { adminDetails, adminOptions } from '../common-options.js'

const dayMs = 24 * 60 * 60_000

/** The command `svc token create`. */
export const command = defineCommand({
  operands: { name: { required: true, help: 'name of the token, for lists and the audit log' } },
  options: {
    role: { type: 'text', value: 'role', choices: accessRoles, help: 'what the token may do' },
    project: {
      type: 'text',
      value: 'id',
      repeatable: true,
      complete: 'projects',
      help: 'id or name of a project that the token is limited to; default: all'
    },
    days: { type: 'count', value: 'n', minimum: 1, maximum: 36_500, help: 'days until the token expires; default: 90' },
    ip: {
      type: 'text',
      value: 'address',
      repeatable: true,
      help: 'address or block (10.0.0.0/8) that may use the token; default: all'
    },
    'show-scripts': { type: 'switch', help: 'let a viewer or deployer read the scripts of its projects' },
    out: outOption,
    json: { type: 'switch', help: 'print {token, record} as JSON, with the secret' },
    ...adminOptions
  },
  details:
    'A viewer reads projects, deployments and logs. A deployer also pushes, and cancels, confirms or reverts its own\n' +
    'deployments. An operator also rolls back, undoes, repairs and locks, and reads files of targets. An admin may do\n' +
    `everything.\n\n${adminDetails}`,
  examples: [
    ['token create ci-shop --role deployer --project shop', 'a token for the pipeline of one project'],
    ['token create ana --role operator --days 30 --out ana.token', 'a token for a person, in a file']
  ],
  async run({ options, operands }, context) {
    const { role, project, days, ip, out, json } = options
    if (role === undefined)
      throw usage('--role', `The role is missing: use --role with one of ${accessRoles.join(', ')}`)
    if (out !== undefined && json) throw usage('--out', 'Use --out or --json, not both')
    const { api } = await openAdmin(context, options)
    const { token, record } = await api.createToken({
      name: operands.name,
      role: role as AccessRole,
      projectIds: await projectIdsOf(api, project),
      allowedIps: ip,
      showScripts: options['show-scripts'],
      ...(days !== undefined && { expiresAt: new Date(Date.now() + days * dayMs).toISOString() })
    })
    if (json) {
      context.output.json({ token, record })
      return exitCodes.success
    }
    const names = new Map((await api.projects()).map(({ id, name }) => [id, name]))
    const end = endOf(record, Date.now())
    context.output.note(`Token "${record.name}": ${record.role} of ${scopeOf(record, names)}, ${end}`)
    await handOver(token, out, context)
    return exitCodes.success
  }
})
