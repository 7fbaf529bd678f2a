import type { ListedToken } from '../../model/access.js'
import { endOf, remarksOf, scopeOf, useOf } from '../named-tokens.js'
import { openAdmin } from '../client/session.js'
import { defineCommand, exitCodes } from '../command.js'
import { adminDetails, adminOptions } from '../common-options.js'

/** The command `svc token list`. */
export const command = defineCommand({
  operands: {},
  options: {
    json: { type: 'switch', help: 'print {items, builtIn} as JSON' },
    ...adminOptions
  },
  details: `The admin token and the deploy tokens of projects have no name. "svc projects token" prints the latter.\n\n${adminDetails}`,
  examples: [['token list', 'list the named tokens of the configured server']],
  async run({ options }, context) {
    const { output } = context
    const { api } = await openAdmin(context, options)
    const list = await api.tokens()
    if (options.json) {
      output.json(list)
      return exitCodes.success
    }
    const { items } = list
    if (items.length === 0) {
      output.note('There are no named tokens. "svc token create" creates one.')
      return exitCodes.success
    }
    const names = new Map((await api.projects()).map(({ id, name }) => [id, name]))
    const nowMs = Date.now()
    const hasRemarks = items.some(token => remarksOf(token) !== '')
    output.table(items, [
      { header: 'NAME', cell: ({ name }) => name, shrinkTo: 10 },
      { header: 'ROLE', cell: ({ role }) => role },
      { header: 'PROJECTS', cell: token => scopeOf(token, names), shrinkTo: 10 },
      { header: 'VALIDITY', cell: token => endOf(token, nowMs) },
      { header: 'LAST USED', cell: token => useOf(token, nowMs) },
      ...(hasRemarks ? [{ header: 'REMARKS', cell: (token: ListedToken) => remarksOf(token), shrinkTo: 10 }] : [])
    ])
    return exitCodes.success
  }
})
