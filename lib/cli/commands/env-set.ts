import { variableNameFault, variableValueFault } from '../../model/variable.js'
import { usage } from '../args.js'
import { defineCommand, exitCodes, type Context } from '../command.js'
import { openVariables, variableDetails, variableOptions } from '../project-variables.js'
import { canAsk, mustAsk, readSecret } from '../prompt.js'

export const command = defineCommand({
  operands: {
    variable: { required: true, help: 'NAME, or NAME=value for a value that is not secret' },
    value: { help: '"-" reads the value from standard input' }
  },
  options: {
    ...variableOptions,
    secret: { type: 'switch', help: 'store a secret; the default unless the value is in the command' },
    plain: { type: 'switch', help: 'store a value that everybody with the admin token can read' },
    json: { type: 'switch', help: 'print all variables as JSON; the value of a secret is null' }
  },
  details:
    'With NAME alone the value is asked for, and not shown while it is typed. Other users of the machine can read the\n' +
    'words of a command, so a secret is never taken from them.\n' +
    `Scripts get secrets, and outputs show *** in their place. ${variableDetails}`,
  examples: [
    ['env set NODE_ENV=production', 'a value that is not secret'],
    ['env set DB_PASSWORD', 'a secret, which is asked for'],
    ['env set TLS_KEY - < key.pem', 'a secret of several lines, from a file']
  ],
  async run({ options, operands }, context) {
    const { name, value: written } = split(operands.variable)
    checkWords({ name, written, value: operands.value, ...options })
    const { api, projectId } = await openVariables(context, options)
    if (written !== null && (await api.variables(projectId)).some(each => each.name === name && each.secret) && !options.plain) {
      throw usage(name, `${name} is a secret: "svc env set ${name}" asks for its value. With --plain it is no longer secret`)
    }
    const secret = written === null && !options.plain
    const value = written ?? (await readValue(context, name, operands.value))
    const fault = variableValueFault(value, secret)
    if (fault !== null) throw usage(name, `The value of ${name} ${fault}`)
    const variables = await api.changeVariables(projectId, { variables: [{ name, value, secret }] })
    if (options.json) context.output.json(variables)
    else context.output.print(`${name} is set${secret ? ', as a secret' : ''}`)
    return exitCodes.success
  }
})

function split(variable: string): { name: string; value: string | null } {
  const at = variable.indexOf('=')
  return at === -1 ? { name: variable, value: null } : { name: variable.slice(0, at), value: variable.slice(at + 1) }
}

function checkWords(
  { name, written, value, secret, plain }: { name: string; written: string | null; value: string | undefined; secret: boolean; plain: boolean }
): void {
  const fault = variableNameFault(name)
  if (fault !== null) throw usage(name, `"${name}" ${fault}`)
  if (secret && plain) throw usage('--plain', '--secret and --plain exclude each other')
  if (secret && written !== null) {
    throw usage('--secret', `A secret is not taken from the command, whose words other users can read: leave the value out, or use "svc env set ${name} -"`)
  }
  if (value === undefined) return
  if (written !== null) throw usage(value, `"${value}" is one word too many: the value is given already`)
  if (value !== '-') throw usage(value, `"${value}" cannot be used: write "svc env set ${name}=value", or "-" for standard input`)
}

async function readValue({ host }: Context, name: string, from: string | undefined): Promise<string> {
  if (from === undefined && !canAsk(host)) mustAsk(host, `The value of ${name} is missing`, `use "svc env set ${name} -" to read standard input`)
  return readSecret(host, name, '-')
}
