import { variableNameFault } from '../../model/variable.js'
import { defineCommand, exitCodes, usage } from '../command.js'
import { splitList } from '../terminal/words.js'
import { openVariables, variableDetails, variableOptions } from '../project-variables.js'

/** The command `svc env unset`. */
export const command = defineCommand({
  operands: { names: { required: true, help: 'the variable; separate several with commas' } },
  options: { ...variableOptions, json: { type: 'switch', help: 'print the remaining variables as JSON' } },
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
    const { api, projectId } = await openVariables(context, options)
    const known = new Set((await api.variables(projectId)).map(({ name }) => name))
    const unknown = names.filter(name => !known.has(name))
    if (unknown.length > 0) {
      context.output.error(
        `Nothing was removed: ${unknown.join(', ')} ${unknown.length === 1 ? 'is' : 'are'} not set. Use "svc env list" to see the variables`
      )
      return exitCodes.failed
    }
    const left = await api.changeVariables(projectId, { unset: names })
    if (options.json) context.output.json(left)
    else context.output.print(`Removed ${names.join(', ')}`)
    return exitCodes.success
  }
})
