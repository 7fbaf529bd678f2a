import { oneLine } from '../../base/text.js'
import type { Variable } from '../../model/variable.js'
import { defineCommand, exitCodes } from '../command.js'
import { openVariables, variableDetails, variableOptions } from '../project-variables.js'
import { relativeTime } from '../terminal/words.js'

/** The command `svc env list`. */
export const command = defineCommand({
  operands: {},
  options: {
    ...variableOptions,
    json: { type: 'switch', help: 'print the variables as JSON, with null for the value of a secret' }
  },
  details: `The values of secrets are never shown.\n${variableDetails}`,
  examples: [
    ['env list', 'list the variables of the project in this directory'],
    ['env list --project proj_abcdefghijklmnop --json', 'list the variables of another project, for a script']
  ],
  async run({ options }, context) {
    const { output } = context
    const { api, projectId } = await openVariables(context, options)
    const variables = await api.variables(projectId)
    if (options.json) output.json(variables)
    else if (variables.length === 0) output.note('There are no variables yet. Use "svc env set NAME=value" to set one.')
    else {
      const nowMs = Date.now()
      output.table(variables, [
        { header: 'NAME', cell: ({ name }) => name },
        { header: 'VALUE', cell: shownValue, shrinkTo: 10 },
        { header: 'CHANGED', cell: ({ updatedAt }) => relativeTime(updatedAt, nowMs) }
      ])
    }
    return exitCodes.success
  }
})

function shownValue({ value, secret, hasValue }: Variable): string {
  if (secret) return hasValue ? '*** (secret)' : '(secret, not set yet)'
  return oneLine(value ?? '')
}
