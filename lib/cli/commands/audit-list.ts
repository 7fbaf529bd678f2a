import type { AuditEntry } from '../../model/audit.js'
import { openAdmin } from '../client/session.js'
import { defineCommand, exitCodes } from '../command.js'
import { adminDetails, adminOptions } from '../common-options.js'

const defaultLimit = 50
const maxLimit = 500

/** The command `svc audit list`. */
export const command = defineCommand({
  operands: {},
  options: {
    action: { type: 'text', value: 'noun.verb', help: 'only entries with this action, for example project.update' },
    project: { type: 'text', value: 'id', complete: 'projects', help: 'only entries of this project' },
    by: { type: 'text', value: 'name', help: 'only entries of the named token with this name' },
    before: { type: 'text', value: 'id', help: 'only entries older than this one' },
    limit: {
      type: 'count',
      value: 'number',
      default: defaultLimit,
      minimum: 1,
      maximum: maxLimit,
      help: 'maximum number of entries'
    },
    ...adminOptions,
    json: { type: 'switch', help: 'print the entries as JSON' }
  },
  details: `The newest entry comes first. A named token lists its own entries; an operator also those of its projects.\n\n${adminDetails}`,
  examples: [
    ['audit list', 'list the newest entries'],
    ['audit list --by ci-shop --json', 'list what a named token did, for a script']
  ],
  async run({ options }, context) {
    const { action, project: projectId, by: tokenName, before, limit, json } = options
    const { api } = await openAdmin(context, options)
    const query = { action, projectId, tokenName, before, limit: String(limit) }
    const { items } = await api.client.json<{ items: AuditEntry[] }>({ path: '/api/audit', query })
    const { output } = context
    if (json) output.json(items)
    else if (items.length === 0) output.note('No entries.')
    else
      output.table(items, [
        { header: 'NUMBER', cell: ({ seq }) => (seq === null ? '-' : String(seq)) },
        { header: 'TIME', cell: ({ at }) => `${at.slice(0, 19).replace('T', ' ')}Z` },
        { header: 'ACTOR', cell: ({ actor }) => actor, shrinkTo: 10 },
        { header: 'ADDRESS', cell: ({ ip }) => ip ?? '-' },
        { header: 'ACTION', cell: ({ action, ok }) => (ok ? action : `${action} (failed)`) },
        { header: 'TARGET', cell: ({ target, projectId }) => target ?? projectId ?? '-', shrinkTo: 10 },
        { header: 'DETAIL', cell: ({ detail }) => detail ?? '', shrinkTo: 10 }
      ])
    return exitCodes.success
  }
})
