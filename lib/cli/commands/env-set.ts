import { variableNameFault, variableValueFault } from '../../model/variable.js'
import { type Context, defineCommand, exitCodes, usage } from '../command.js'
import { openVariables, variableDetails, variableOptions } from '../project-variables.js'
import { canAsk, mustAsk, readSecret } from '../terminal/prompt.js'

/** The command `svc env set`. */
export const command = defineCommand({
  operands: {
    variable: { required: true, help: 'NAME for a secret, or NAME=value for a plain value' },
    value: { help: '"-" to read the value from standard input' }
  },
  options: {
    ...variableOptions,
    secret: { type: 'switch', help: 'store a secret; the default unless the command contains the value' },
    plain: { type: 'switch', help: 'store a value that every admin can read' },
    json: { type: 'switch', help: 'print all variables as JSON, with null for the value of a secret' }
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
    const { api, projectId } = await openVariables(context, options)
    if (
      written !== null &&
      (await api.variables(projectId)).some(each => each.name === name && each.secret) &&
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
    const variables = await api.changeVariables(projectId, { variables: [{ name, value, secret }] })
    if (options.json) context.output.json(variables)
    else context.output.print(`Set ${name}${secret ? ' as a secret' : ''}`)
    return exitCodes.success
  }
})

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
