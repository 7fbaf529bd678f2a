import { resolve } from 'node:path'
import { countOf, readText } from '../../base/text.js'
import { parseDotenv } from '../../config/dotenv.js'
import { defineCommand, exitCodes, usage } from '../command.js'
import { openVariables, variableDetails, variableOptions } from '../project-variables.js'
import { readSecret } from '../terminal/prompt.js'

/** The command `svc env import`. */
export const command = defineCommand({
  operands: { file: { required: true, help: 'file with lines like NAME=value; "-" reads standard input' } },
  options: {
    ...variableOptions,
    secret: { type: 'switch', help: 'store every variable of the file as a secret' },
    json: { type: 'switch', help: 'print all variables as JSON, with null for the value of a secret' }
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
    const { api, projectId } = await openVariables(context, options)
    const variables = await api.changeVariables(projectId, { dotenv, secret: options.secret })
    if (options.json) context.output.json(variables)
    else
      context.output.print(
        `Set ${countOf(names.length, 'variable')}${options.secret ? ' as secrets' : ''}: ${names.join(', ')}`
      )
    return exitCodes.success
  }
})
