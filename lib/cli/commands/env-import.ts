import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { countOf } from '../../base/count.js'
import { parseDotenv } from '../../config/dotenv.js'
import { usage } from '../args.js'
import { defineCommand, exitCodes } from '../command.js'
import { openVariables, variableDetails, variableOptions } from '../project-variables.js'
import { readSecret } from '../prompt.js'

export const command = defineCommand({
  operands: { file: { required: true, help: 'a file with lines like NAME=value; "-" reads standard input' } },
  options: {
    ...variableOptions,
    secret: { type: 'switch', help: 'store every variable of the file as a secret' },
    json: { type: 'switch', help: 'print all variables as JSON; the value of a secret is null' }
  },
  details:
    'All variables of the file are set, or none. Variables that the file does not name stay, and what is a secret stays a\n' +
    `secret. Nothing is expanded: $NAME in a value is text.\n${variableDetails}`,
  examples: [
    ['env import .env', 'the variables of a file, readable in the panel'],
    ['env import .env.production --secret', 'all of them as secrets']
  ],
  async run({ options, operands }, context) {
    const { file } = operands
    const dotenv = file === '-' ? await readSecret(context.host, 'file', '-') : await readFile(resolve(context.cwd, file), 'utf8')
    const names = Object.keys(parseDotenv(dotenv))
    if (names.length === 0) throw usage(file, `${file === '-' ? 'Standard input' : `"${file}"`} contains no lines like NAME=value`)
    const { api, projectId } = await openVariables(context, options)
    const variables = await api.changeVariables(projectId, { dotenv, secret: options.secret })
    if (options.json) context.output.json(variables)
    else context.output.print(`${countOf(names.length, 'variable')} set${options.secret ? ', as secrets' : ''}: ${names.join(', ')}`)
    return exitCodes.success
  }
})
