import { variableNameFault } from '../../model/variable.js'
import { usage } from '../args.js'
import { defineCommand, exitCodes } from '../command.js'
import { splitList } from '../lists.js'
import { openVariables, variableDetails, variableOptions } from '../project-variables.js'

export const command = defineCommand({
  operands: { names: { required: true, help: 'the variable; a list has commas' } },
  options: { ...variableOptions, json: { type: 'switch', help: 'print the variables that are left as JSON' } },
  details: `A name that is not set is an error, and nothing is removed.\n${variableDetails}`,
  examples: [
    ['env unset DB_PASSWORD', 'remove a variable'],
    ['env unset OLD_URL,OLD_TOKEN', 'remove two']
  ],
  async run({ options, operands }, context) {
    const names = splitList(operands.names)
    for (const name of names) {
      const fault = variableNameFault(name)
      if (fault !== null) throw usage(name, `"${name}" ${fault}`)
    }
    const { api, projectId } = await openVariables(context, options)
    const known = new Set((await api.variables(projectId)).map(({ name }) => name))
    const unknown = names.filter(name => !known.has(name))
    if (unknown.length > 0) {
      context.output.error(`Nothing was removed: ${unknown.join(', ')} ${unknown.length === 1 ? 'is' : 'are'} not set. "svc env list" shows what is`)
      return exitCodes.failed
    }
    const left = await api.changeVariables(projectId, { unset: names })
    if (options.json) context.output.json(left)
    else context.output.print(`${names.join(', ')} ${names.length === 1 ? 'is' : 'are'} removed`)
    return exitCodes.success
  }
})
