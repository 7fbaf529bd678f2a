import { countOf, oneLine } from '../../base/text.js'
import {
  type AccessReport,
  type AccessRole,
  accessRoles,
  type ListedToken,
  type ReportedBuiltIn,
  type ReportedToken,
  tokenLimits
} from '../../model/access.js'
import { listDeployments } from '../client/runs.js'
import { projectNamesOf } from '../client/named-project.js'
import { openAdmin } from '../client/session.js'
import { defineCommand, exitCodes, type Family, number, option, toggle, usage, type Context } from '../command.js'
import { adminDetails, adminOptions, durationOption, sharedOptions } from '../common-options.js'
import {
  endOf,
  handOver,
  openToken,
  outOption,
  projectIdsOf,
  projectsOption,
  remarksOf,
  scopeOf,
  tokenOperand,
  useOf,
  findNamedToken
} from '../named-tokens.js'
import { confirmation, askSecret, mustAsk, readTokenOption } from '../terminal/prompt.js'
import { minuteOf } from '../terminal/words.js'
import { checkNewToken, strongToken, weaknessOf } from '../../access/admin-token.js'
import { randomIds } from '../../base/digests.js'
import { Refusal } from '../../base/errors.js'
import { type Dotenv, readDotenv } from '../../base/config/files.js'
import { locateHome } from '../../base/config/home.js'
import { withLocalApi } from '../client/opened.js'

const dayMs = 24 * 60 * 60_000

const daysOption = (help: string) => number('n', help, { minimum: 1, maximum: 36_500 })

const everyProject = 'every project'

/** Alternative to `--password`, whose value other users of the machine can see in the list of processes. */
const variable = 'SVC_NEW_ADMIN_TOKEN'

/** The commands for named tokens, and for people who cannot sign in. Those work on the data directory. */
export const commands = {
  'token create': defineCommand({
    fields: { projectIds: '--project', allowedIps: '--ip', expiresAt: '--days', showScripts: '--show-scripts' },
    operands: { name: { required: true, help: 'name of the token, for lists and the audit log' } },
    options: {
      role: option('role', 'what the token may do', { choices: accessRoles }),
      project: projectsOption('id or name of a project that the token is limited to; default: all'),
      days: daysOption('days until the token expires; default: 90'),
      ip: option('address', 'address or block (10.0.0.0/8) that may use the token; default: all', { repeatable: true }),
      'show-scripts': toggle('let a viewer or deployer read the scripts of its projects'),
      out: outOption,
      json: toggle('print {token, record} as JSON, with the secret'),
      ...adminOptions
    },
    details:
      'A viewer reads projects, deployments and logs. A deployer also pushes, and cancels, confirms or reverts its own\n' +
      'deployments. An operator also rolls back, undoes, repairs and locks, and reads files of targets. An admin may do\n' +
      `everything.\n\n${adminDetails('admin')}`,
    examples: [
      ['token create ci-shop --role deployer --project shop', 'a token for the pipeline of one project'],
      ['token create ana --role operator --days 30 --out ana.token', 'a token for a person, in a file']
    ],
    async run({ options, operands }, context) {
      const { role, project, days, ip, out, json } = options
      if (role === undefined)
        throw usage('--role', `The role is missing: use --role with one of ${accessRoles.join(', ')}`)
      if (out !== undefined && json) throw usage('--out', 'Use --out or --json, not both')
      const { client } = await openAdmin(context, options)
      const { token, record } = await client.call('POST /api/tokens', {
        body: {
          name: operands.name,
          role: role as AccessRole,
          projectIds: await projectIdsOf(client, project),
          allowedIps: ip,
          showScripts: options['show-scripts'],
          ...(days !== undefined && { expiresAt: new Date(Date.now() + days * dayMs).toISOString() })
        }
      })
      if (json) return context.output.json({ token, record })
      const names = await projectNamesOf(client)
      const end = endOf(record, Date.now())
      context.output.note(`Token "${record.name}": ${record.role} of ${scopeOf(record, names)}, ${end}`)
      await handOver(token, out, context)
    }
  }),

  'token list': defineCommand({
    options: { json: toggle('print {items, builtIn} as JSON'), ...adminOptions },
    details: `The admin token and the deploy tokens of projects have no name. "svc projects token" prints the latter.\n\n${adminDetails('admin')}`,
    examples: [['token list', 'list the named tokens of the configured server']],
    async run({ options }, context) {
      const { output } = context
      const { client } = await openAdmin(context, options)
      const list = await client.call('GET /api/tokens')
      if (options.json) return output.json(list)
      const { items } = list
      if (items.length === 0) {
        output.note('There are no named tokens. "svc token create" creates one.')
        return
      }
      const names = await projectNamesOf(client)
      const nowMs = Date.now()
      const hasRemarks = items.some(token => remarksOf(token) !== '')
      output.table(items, [
        { header: 'NAME', cell: ({ name }) => name, shrinkTo: 20 },
        { header: 'ROLE', cell: ({ role }) => role },
        { header: 'PROJECTS', cell: token => scopeOf(token, names), shrinkTo: 10 },
        { header: 'VALIDITY', cell: token => endOf(token, nowMs) },
        { header: 'LAST USED', cell: token => useOf(token, nowMs), shrinkTo: 8, drop: 'last' },
        ...(hasRemarks ? [{ header: 'REMARKS', cell: (token: ListedToken) => remarksOf(token), shrinkTo: 10 }] : [])
      ])
    }
  }),

  'token rotate': defineCommand({
    fields: { overlapSeconds: { duration: '--overlap' }, expiresAt: '--days' },
    operands: { token: tokenOperand },
    options: {
      overlap: option('time', 'how long the earlier secret stays valid, up to 1d; default: not at all'),
      days: daysOption('days until the new secret expires; default: as many as the earlier one had'),
      out: outOption,
      json: toggle('print {token, record} as JSON, with the secret'),
      ...adminOptions
    },
    details: `Gives a token a new secret. Name, role and projects stay. Its sessions of the panel end.\n\n${adminDetails('admin')}`,
    examples: [
      ['token rotate ci-shop --overlap 1h', 'replace a secret without interrupting pipelines'],
      ['token rotate ci-shop', 'replace a secret that leaked']
    ],
    async run({ options, operands }, context) {
      const { overlap, days, out, json } = options
      if (out !== undefined && json) throw usage('--out', 'Use --out or --json, not both')
      const overlapSeconds = overlap === undefined ? 0 : Math.round(durationOption('--overlap', overlap) / 1000)
      if (overlapSeconds > tokenLimits.overlapSeconds) throw usage('--overlap', '--overlap is too long: at most 1d')
      const { client, token: found } = await openToken(context, options, operands.token)
      const expiresAt = days === undefined ? undefined : new Date(Date.now() + days * dayMs).toISOString()
      const { token, record } = await client.call('POST /api/tokens/:id/rotate', {
        id: found.id,
        body: { overlapSeconds, expiresAt }
      })
      if (json) return context.output.json({ token, record })
      const { name, oldExpiresAt } = record
      const old = oldExpiresAt === null ? 'has ended' : `is valid until ${minuteOf(oldExpiresAt)}`
      context.output.note(`Token "${name}" ${endOf(record, Date.now())}. The earlier secret ${old}.`)
      await handOver(token, out, context)
    }
  }),

  'token revoke': defineCommand({
    operands: { token: tokenOperand },
    options: {
      yes: { ...sharedOptions.yes, help: 'do not ask before revoking the token; required without a terminal' },
      ...adminOptions
    },
    details: `Ends a token at once, with its streams and its sessions of the panel. Names what it has started that still waits\nfor its time or an approval: that begins all the same, unless you cancel it.\n\n${adminDetails('admin')}`,
    examples: [['token revoke ci-shop --yes', 'end a token that leaked']],
    async run({ options, operands }, context) {
      const isSure = confirmation(context, { yes: options.yes, what: 'Revoking a token' })
      const { client, token } = await openToken(context, options, operands.token)
      if (!(await isSure(`Revoke the token "${token.name}"?`))) return exitCodes.failed
      await client.call('DELETE /api/tokens/:id', { id: token.id })
      context.output.print(`The token "${token.name}" was revoked`)
      // The token has ended, whatever the answer is. It may have been the one that asks.
      const queued = await listDeployments(client, { status: 'queued', output: 'none', limit: 500 }).catch(() => null)
      if (queued === null) context.output.warn('What it has started and still waits is not known: see "svc status"')
      for (const { id, projectName } of queued?.filter(({ tokenId }) => tokenId === token.id) ?? [])
        context.output.warn(`${id} of ${oneLine(projectName)}, which it has started, still waits: svc cancel ${id}`)
      return exitCodes.success
    }
  }),

  'access report': defineCommand({
    options: { json: toggle('print the report of the server as JSON'), ...adminOptions },
    details: `Lists the tokens that can deploy to each project, with their end, last use and addresses. A token with a second\nfactor deploys in the panel only.\n\n${adminDetails('admin')}`,
    examples: [
      ['access report', 'list which tokens can deploy where'],
      ['access report --json > access.json', 'keep the report for an audit']
    ],
    async run({ options }, context) {
      const { output } = context
      const report = await (await openAdmin(context, options)).client.call('GET /api/access/report')
      if (options.json) return output.json(report)
      const nowMs = Date.now()
      output.table(linesOf(report), [
        { header: 'PROJECT', cell: ({ project }) => project, shrinkTo: 24 },
        {
          header: 'TOKEN',
          cell: ({ token }) => ('name' in token ? oneLine(token.name) : wordsOf[token.kind]),
          shrinkTo: 10
        },
        { header: 'ROLE', cell: ({ token }) => ('role' in token ? token.role : '-') },
        {
          header: 'VALIDITY',
          cell: ({ token }) => ('role' in token ? endOf({ ...token, revokedAt: null }, nowMs) : 'no end')
        },
        {
          header: 'LAST USED',
          cell: ({ token }) => useOf('role' in token ? token : { ...token, lastUsedIp: null }, nowMs),
          shrinkTo: 8,
          drop: 'last'
        },
        { header: 'FROM', cell: ({ token }) => addressesOf(token, report), shrinkTo: 10, drop: 'last' },
        { header: 'REMARKS', cell: ({ token }) => ('role' in token ? remarksOf(token) : ''), shrinkTo: 10, wraps: true }
      ])
      for (const note of notesOf(report)) output.note(note)
    }
  }),

  'admin reset-password': defineCommand({
    options: {
      random: toggle('generate a token and print it'),
      password: option('token', 'new token; "-" reads it from standard input')
    },
    details:
      'Works on the data directory (SVC_HOME), whether the server is running or not. A running server uses the new\n' +
      'token from its next request on. The audit log records the reset, but not the token.\n' +
      `Instead of --password, ${variable} can contain the new token.`,
    examples: [
      ['admin reset-password', 'ask for the new token twice'],
      ['admin reset-password --random', 'generate a token'],
      ['admin reset-password --password - < token.txt', 'read the token from a file']
    ],
    async run({ options }, context) {
      if (options.random && options.password !== undefined)
        throw usage('--random', '--random and --password cannot be used together: give only one of them')
      const { env, cwd, output } = context
      const token = options.random ? strongToken(randomIds) : await chosenToken(options.password, context)
      checkNewToken(token, '--password')
      const weakness = weaknessOf(token)
      if (weakness !== null) output.warn(`the token is weak: ${weakness}. Use --random to generate a strong one`)
      const home = locateHome(env, cwd)
      const isServerRunning = await withLocalApi(context, home, async ({ client, isServerRunning }) => {
        await client.call('POST /api/auth/reset', { body: { newToken: token } })
        return isServerRunning
      })
      if (options.random) output.print(token)
      output.note(
        `The admin token was stored in ${home.configFile}.${isServerRunning ? ' The running server already uses it.' : ''}`
      )
      await warnOfOverride(context)
    }
  }),

  'admin reset-second-factor': defineCommand({
    operands: { token: { required: true, help: 'name or id of the token' } },
    details:
      'For a user who lost the authenticator and the recovery codes. Works on the data directory (SVC_HOME), whether the\n' +
      'server is running or not. The audit log records the removal.',
    examples: [['admin reset-second-factor ana', 'let a user sign in without a code']],
    async run({ operands }, context) {
      const home = locateHome(context.env, context.cwd)
      await withLocalApi(context, home, async ({ client }) => {
        const token = await findNamedToken(client, operands.token)
        await client.call('DELETE /api/tokens/:id/second-factor', { id: token.id })
        context.output.print(`The second factor of the token "${token.name}" was removed`)
      })
    }
  })
} satisfies Family

/** A token that can deploy to a project. */
interface Line {
  project: string
  token: ReportedToken | ReportedBuiltIn
}

const wordsOf: Readonly<Record<ReportedBuiltIn['kind'], string>> = {
  admin: 'admin token',
  global: 'global deploy token',
  project: 'deploy token'
}

/** Returns the lines: first the tokens for every project, then those of each project by name. */
function linesOf({ tokens, builtIn, projects }: AccessReport): Line[] {
  const byId = new Map(tokens.map(token => [token.id, token]))
  const deployers = tokens.filter(({ role, projectIds }) => role !== 'viewer' && projectIds === null)
  const everywhere = [...builtIn.filter(({ projectId }) => projectId === null), ...deployers]
  const sorted = [...projects].sort((a, b) => a.name.localeCompare(b.name))
  return [
    ...everywhere.map(token => ({ project: everyProject, token })),
    ...sorted.flatMap(({ id, name, tokenIds }) => {
      const limited = tokenIds.map(tokenId => byId.get(tokenId)).filter(token => token !== undefined)
      const own = [
        ...limited.filter(({ projectIds }) => projectIds !== null),
        ...builtIn.filter(of => of.projectId === id)
      ]
      return own.map(token => ({ project: oneLine(name), token }))
    })
  ]
}

function addressesOf(token: Line['token'], { allowedIps }: AccessReport): string {
  const own = 'role' in token ? token.allowedIps : []
  return (own.length > 0 ? own : allowedIps).join(', ') || 'anywhere'
}

function notesOf({ tokens, projects, allowedIps }: AccessReport): string[] {
  const readers = tokens.filter(({ role }) => role === 'viewer').length
  const open = projects.filter(({ clientScripts }) => clientScripts).map(({ name }) => oneLine(name))
  return [
    ...(readers === 0 ? [] : [`${countOf(readers, 'more token')} can only read`]),
    ...(allowedIps.length === 0 ? [] : [`allowed_ips limits all of them to ${allowedIps.join(', ')}`]),
    ...(open.length === 0 ? [] : [`An upload can run scripts on the server in: ${open.join(', ')}`])
  ]
}

async function chosenToken(password: string | undefined, { host, env }: Context): Promise<string> {
  const given = password ?? env[variable]
  if (given !== undefined) return readTokenOption(host, '--password', given)
  mustAsk(host, 'The new token is missing', 'use --random or --password')
  const token = await askSecret(host, 'New admin token')
  if ((await askSecret(host, 'Repeat the token')) === token) return token
  throw new Refusal('invalid', 'tokens_differ', 'The two tokens differ: nothing was changed. Run the command again')
}

async function warnOfOverride({ env, cwd, output }: Context): Promise<void> {
  const { path, values } = await readDotenv(cwd, 'server').catch((error: unknown) => {
    if (!(error instanceof Refusal)) throw error
    output.warn(error.message)
    return { path: '', values: {} as Dotenv['values'] }
  })
  const from = env['ADMIN_TOKEN'] ? 'the environment' : values.ADMIN_TOKEN ? path : null
  if (from !== null) output.warn(`ADMIN_TOKEN in ${from} overrides this token if the server is started from here`)
}
