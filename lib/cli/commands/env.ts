import { resolve } from 'node:path'
import { countOf, oneLine, readText } from '../../base/text.js'
import { parseDotenv } from '../../base/config/files.js'
import { type Variable, variableNameFault, variableValueFault } from '../../model/variable.js'
import { nearOr } from '../client/named-project.js'
import { openNamed, openProjectAsAdmin, type ProjectWish } from '../client/session.js'
import { type Context, defineCommand, exitCodes, type Family, toggle, usage } from '../command.js'
import { adminDetails, adminOptions, projectOperand, sharedOptions } from '../common-options.js'
import { canAsk, mustAsk, readSecret } from '../terminal/prompt.js'
import { relativeTime, splitList } from '../terminal/words.js'

/** Options that the commands of `svc env` share. */
const variableOptions = { project: { ...sharedOptions.project, help: projectOperand.help }, ...adminOptions } as const

/** Closing sentences of the help of these commands. */
const variableDetails = `Changes take effect with the next deployment.\n${adminDetails('admin')}`

/** Opens the API of the server with a token of the server. Returns it with the id of the project. */
export const openVariables = (context: Context, wish: ProjectWish) => openNamed(context, wish, openProjectAsAdmin)

/** The commands for the script variables of a project. */
export const commands = {
  'env list': defineCommand({
    options: { ...variableOptions, json: toggle('print the variables as JSON, with null for the value of a secret') },
    details: `The values of secrets are never shown.\n\n${adminDetails('operator')}`,
    examples: [
      ['env list', 'list the variables of the project in this directory'],
      ['env list --project shop --json', 'list the variables of another project, for a script']
    ],
    async run({ options }, context) {
      const { client, projectId } = await openVariables(context, options)
      const nowMs = Date.now()
      context.output.list(
        options.json,
        (await client.call('GET /api/projects/:id/variables', { id: projectId })).variables,
        {
          empty: 'There are no variables yet. Use "svc env set NAME=value" to set one.',
          columns: [
            { header: 'NAME', cell: ({ name }) => name },
            { header: 'VALUE', cell: shownValue, shrinkTo: 10 },
            { header: 'CHANGED', cell: ({ updatedAt }) => relativeTime(updatedAt, nowMs) }
          ]
        }
      )
    }
  }),

  'env set': defineCommand({
    operands: {
      variable: { required: true, help: 'NAME for a secret, or NAME=value for a plain value' },
      value: { help: '"-" to read the value from standard input' }
    },
    options: {
      ...variableOptions,
      secret: toggle('store a secret; the default unless the command contains the value'),
      plain: toggle('store a value that every admin can read'),
      json: toggle('print all variables as JSON, with null for the value of a secret')
    },
    details:
      'With NAME alone, svc asks for the value and does not show it while you type. Other users of this machine can\n' +
      'see the arguments of a command, so svc never accepts a secret there.\n' +
      `Scripts receive secrets as variables; outputs show *** instead. ${variableDetails}`,
    examples: [
      ['env set NODE_ENV=production', 'set a plain value'],
      ['env set DB_PASSWORD', 'ask for a secret and set it'],
      ['env set TLS_KEY - < key.pem', 'set a secret of several lines from a file']
    ],
    async run({ options, operands }, context) {
      const { name, value: written } = split(operands.variable)
      checkWords({ name, written, value: operands.value, ...options })
      const { client, projectId } = await openVariables(context, options)
      if (
        written !== null &&
        (await client.call('GET /api/projects/:id/variables', { id: projectId })).variables.some(
          each => each.name === name && each.secret
        ) &&
        !options.plain
      ) {
        throw usage(
          name,
          `${name} is a secret. Use "svc env set ${name}" to be asked for its value, or --plain to make it readable`
        )
      }
      const secret = written === null && !options.plain
      const value = written ?? (await readValue(context, name, operands.value))
      const fault = variableValueFault(value, secret)
      if (fault !== null) throw usage(name, `The value of ${name} ${fault}`)
      const { variables } = await client.call('PATCH /api/projects/:id/variables', {
        id: projectId,
        body: { variables: [{ name, value, secret }] }
      })
      context.output.result(options.json, variables, `Set ${name}${secret ? ' as a secret' : ''}`)
    }
  }),

  'env unset': defineCommand({
    operands: { names: { required: true, help: 'the variable; separate several with commas' } },
    options: { ...variableOptions, json: toggle('print the remaining variables as JSON') },
    details: `If one of the variables is not set, the command fails and removes nothing.\n${variableDetails}`,
    examples: [
      ['env unset DB_PASSWORD', 'remove a variable'],
      ['env unset OLD_URL,OLD_TOKEN', 'remove two variables']
    ],
    async run({ options, operands }, context) {
      const names = splitList(operands.names)
      for (const name of names) {
        const fault = variableNameFault(name)
        if (fault !== null) throw usage(name, `"${name}" ${fault}`)
      }
      const { client, projectId } = await openVariables(context, options)
      const known = new Set(
        (await client.call('GET /api/projects/:id/variables', { id: projectId })).variables.map(({ name }) => name)
      )
      const unknown = names.filter(name => !known.has(name))
      const [first] = unknown
      if (first !== undefined) {
        const advice = nearOr(first, [...known], 'Use "svc env list" to see the variables')
        context.output.error(
          `Nothing was removed: ${unknown.join(', ')} ${unknown.length === 1 ? 'is' : 'are'} not set. ${advice}`
        )
        return exitCodes.failed
      }
      const { variables: left } = await client.call('PATCH /api/projects/:id/variables', {
        id: projectId,
        body: { unset: names }
      })
      context.output.result(options.json, left, `Removed ${names.join(', ')}`)
      return exitCodes.success
    }
  }),

  'env import': defineCommand({
    operands: { file: { required: true, help: 'file with lines like NAME=value; "-" reads standard input' } },
    options: {
      ...variableOptions,
      secret: toggle('store every variable of the file as a secret'),
      json: toggle('print all variables as JSON, with null for the value of a secret')
    },
    details:
      'Sets all variables of the file, or none. Variables that are not in the file do not change, and secrets stay\n' +
      `secret. Values are literal: $NAME is not expanded.\n${variableDetails}`,
    examples: [
      ['env import .env', 'set the variables of a file, readable in the panel'],
      ['env import .env.production --secret', 'set all variables of a file as secrets']
    ],
    async run({ options, operands }, context) {
      const { file } = operands
      const dotenv =
        file === '-' ? await readSecret(context.host, 'file', '-') : await readText(resolve(context.cwd, file))
      const names = Object.keys(parseDotenv(dotenv))
      if (names.length === 0)
        throw usage(
          file,
          `${file === '-' ? 'Standard input' : `"${file}"`} contains no variables: each line must be like NAME=value`
        )
      const { client, projectId } = await openVariables(context, options)
      const { variables } = await client.call('PATCH /api/projects/:id/variables', {
        id: projectId,
        body: { dotenv, secret: options.secret }
      })
      context.output.result(
        options.json,
        variables,
        `Set ${countOf(names.length, 'variable')}${options.secret ? ' as secrets' : ''}: ${names.join(', ')}`
      )
    }
  })
} satisfies Family

function shownValue({ value, secret, hasValue }: Variable): string {
  if (secret) return hasValue ? '*** (secret)' : '(secret, not set yet)'
  return oneLine(value ?? '')
}

function split(variable: string): { name: string; value: string | null } {
  const at = variable.indexOf('=')
  return at === -1 ? { name: variable, value: null } : { name: variable.slice(0, at), value: variable.slice(at + 1) }
}

function checkWords({
  name,
  written,
  value,
  secret,
  plain
}: {
  name: string
  written: string | null
  value: string | undefined
  secret: boolean
  plain: boolean
}): void {
  const fault = variableNameFault(name)
  if (fault !== null) throw usage(name, `"${name}" ${fault}`)
  if (secret && plain) throw usage('--plain', '--secret and --plain cannot be used together: give only one of them')
  if (secret && written !== null) {
    throw usage(
      '--secret',
      `A secret cannot be part of the command, because other users can see it. Leave the value out, or use "svc env set ${name} -"`
    )
  }
  if (value === undefined) return
  if (written !== null) throw usage(value, `Unexpected argument "${value}": the value is already given`)
  if (value !== '-')
    throw usage(value, `Unexpected argument "${value}": use "svc env set ${name}=value", or "-" to read standard input`)
}

async function readValue({ host }: Context, name: string, from: string | undefined): Promise<string> {
  if (from === undefined && !canAsk(host))
    mustAsk(host, `The value of ${name} is missing`, `use "svc env set ${name} -" to read standard input`)
  return readSecret(host, name, '-')
}
