import { countOf, oneLine } from '../../base/text.js'
import type { AccessReport, ReportedBuiltIn, ReportedToken } from '../../model/access-report.js'
import { endOf, remarksOf, useOf } from '../named-tokens.js'
import { openAdmin } from '../client/session.js'
import { defineCommand, exitCodes } from '../command.js'
import { adminDetails, adminOptions } from '../common-options.js'

const everyProject = 'every project'

/** The command `svc access report`. */
export const command = defineCommand({
  operands: {},
  options: {
    json: { type: 'switch', help: 'print the report of the server as JSON' },
    ...adminOptions
  },
  details: `Lists the tokens that can deploy to each project, with their end, last use and addresses. A token with a second\nfactor deploys in the panel only.\n\n${adminDetails}`,
  examples: [
    ['access report', 'list which tokens can deploy where'],
    ['access report --json > access.json', 'keep the report for an audit']
  ],
  async run({ options }, context) {
    const { output } = context
    const report = await (await openAdmin(context, options)).api.accessReport()
    if (options.json) {
      output.json(report)
      return exitCodes.success
    }
    const nowMs = Date.now()
    output.table(linesOf(report), [
      { header: 'PROJECT', cell: ({ project }) => project, shrinkTo: 10 },
      {
        header: 'TOKEN',
        cell: ({ token }) => ('name' in token ? oneLine(token.name) : wordsOf[token.kind]),
        shrinkTo: 10
      },
      { header: 'ROLE', cell: ({ token }) => ('role' in token ? token.role : '-') },
      {
        header: 'VALIDITY',
        cell: ({ token }) => ('role' in token ? endOf({ ...token, revokedAt: null }, nowMs) : 'no end')
      },
      {
        header: 'LAST USED',
        cell: ({ token }) => useOf('role' in token ? token : { ...token, lastUsedIp: null }, nowMs)
      },
      { header: 'FROM', cell: ({ token }) => addressesOf(token, report), shrinkTo: 10 },
      { header: 'REMARKS', cell: ({ token }) => ('role' in token ? remarksOf(token) : ''), shrinkTo: 10 }
    ])
    for (const note of notesOf(report)) output.note(note)
    return exitCodes.success
  }
})

/** A token that can deploy to a project. */
interface Line {
  project: string
  token: ReportedToken | ReportedBuiltIn
}

const wordsOf: Readonly<Record<ReportedBuiltIn['kind'], string>> = {
  admin: 'admin token',
  global: 'global deploy token',
  project: 'deploy token'
}

/** Returns the lines: first the tokens for every project, then those of each project by name. */
function linesOf({ tokens, builtIn, projects }: AccessReport): Line[] {
  const byId = new Map(tokens.map(token => [token.id, token]))
  const deployers = tokens.filter(({ role, projectIds }) => role !== 'viewer' && projectIds === null)
  const everywhere = [...builtIn.filter(({ projectId }) => projectId === null), ...deployers]
  const sorted = [...projects].sort((a, b) => a.name.localeCompare(b.name))
  return [
    ...everywhere.map(token => ({ project: everyProject, token })),
    ...sorted.flatMap(({ id, name, tokenIds }) => {
      const limited = tokenIds.map(tokenId => byId.get(tokenId)).filter(token => token !== undefined)
      const own = [
        ...limited.filter(({ projectIds }) => projectIds !== null),
        ...builtIn.filter(of => of.projectId === id)
      ]
      return own.map(token => ({ project: oneLine(name), token }))
    })
  ]
}

function addressesOf(token: Line['token'], { allowedIps }: AccessReport): string {
  const own = 'role' in token ? token.allowedIps : []
  return (own.length > 0 ? own : allowedIps).join(', ') || 'anywhere'
}

function notesOf({ tokens, projects, allowedIps }: AccessReport): string[] {
  const readers = tokens.filter(({ role }) => role === 'viewer').length
  const open = projects.filter(({ clientScripts }) => clientScripts).map(({ name }) => oneLine(name))
  return [
    ...(readers === 0 ? [] : [`${countOf(readers, 'more token')} can only read`]),
    ...(allowedIps.length === 0 ? [] : [`allowed_ips limits all of them to ${allowedIps.join(', ')}`]),
    ...(open.length === 0 ? [] : [`An upload can run scripts on the server in: ${open.join(', ')}`])
  ]
}
