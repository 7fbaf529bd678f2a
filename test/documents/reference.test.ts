import t from 'tap'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { errorCodes } from '../../lib/api/errors.js'
import { operationOf, readDocument, statusOfCode } from '../support/described.js'
import { apiRoutes } from '../../lib/api/routes.js'
import type { CommandRow } from '../../lib/cli/command.js'
import { renderCommand } from '../../lib/cli/command-help.js'
import { commands } from '../../lib/cli/command-table.js'
import { settingRows } from '../../lib/projects/settings.js'
import { slug } from './markdown.js'
import { top } from './document.js'
import { cures, otherCodes } from './errors.js'

/**
 * The reference in docs/ is generated from the tables of the program. Each `<!-- name -->` section must be up to date;
 * `UPDATE_DOCS=1 node dist/test/documents/reference.test.js` writes them.
 */
const isUpdate = Boolean(process.env['UPDATE_DOCS'] ?? process.env['UPDATE_README'])

function table(head: string[], rows: string[][]): string {
  const lines = [head, head.map(() => '---'), ...rows].map(cells => `| ${cells.join(' | ')} |`)
  return lines.join('\n')
}

/** Returns the output of `svc <name> --help`. */
async function help(row: CommandRow): Promise<string> {
  const command = await row.load()
  return renderCommand(row, command).trim()
}

/** Lists the commands by group, then the help of each. */
async function commandPages(): Promise<string> {
  const rows = commands.filter(({ name, hidden }) => name !== 'help' && !hidden)
  const groups = [...new Set(rows.map(({ group }) => group))].map(group => {
    const list = table(
      ['command', ''],
      rows
        .filter(row => row.group === group)
        .map(({ name, summary }) => [`[\`svc ${name}\`](#${slug(`svc ${name}`)})`, summary])
    )
    return `**${group.charAt(0).toUpperCase()}${group.slice(1)}**\n\n${list}`
  })
  const texts = await Promise.all(rows.map(help))
  const pages = rows.map(({ name }, index) => `## svc ${name}\n\n\`\`\`\n${texts[index]}\n\`\`\``)
  return [...groups, ...pages].join('\n\n')
}

function settings(): string {
  const rows = settingRows.map(({ key, default: value, unit, help }) => [
    `\`${key}\``,
    value === '' ? '' : `\`${value}\``,
    unit ?? '',
    help
  ])
  return table(['setting', 'default', 'unit', ''], rows)
}

/** The tokens that each word of the `auth` column accepts. */
const who: Record<string, string> = {
  public: 'anybody',
  viewer: 'viewer',
  viewer_download: 'viewer, or a ticket',
  read: "viewer, or the project's token",
  download: "viewer, the project's token, or a ticket",
  own: "deployer, or the project's token, from `allowed_ips`",
  approve: 'deployer, all from `allowed_ips`; the policy `approval` names the roles',
  promote: "deployer, or the project's token, all from `allowed_ips`",
  upload: "deployer, the project's token or the global one, from `allowed_ips`",
  piece: 'as for an upload, from `allowed_ips`',
  upload_check: 'deployer, or any other valid token, from `allowed_ips`',
  operator: 'operator',
  operator_download: 'operator, or a ticket',
  operate: 'operator, from `allowed_ips`',
  manage: "operator, or the project's token, from `allowed_ips`",
  fetch: "operator, or the project's token",
  admin: 'admin',
  admin_download: 'admin, or a ticket',
  token: 'any valid token',
  metrics: 'admin, or the value of the setting `metrics_token`',
  terminal: 'admin or a ticket, from `allowed_ips`',
  agent: 'a signature of a node',
  local: 'the command line on the machine of the server'
}

/** Replaces the services: handlers are created here and never called. */
const nothing: any = new Proxy(() => nothing, { get: () => nothing })

function whoMay(auth: string): string {
  const words = who[auth]
  if (words === undefined) throw new Error(`test/documents/reference.test.ts has no words for routes with "${auth}"`)
  return words
}

function routes(): string {
  const document = readDocument()
  const rows = apiRoutes(nothing).map(({ method, path, auth }) => [
    method,
    `\`${path}\``,
    operationOf(document, { method, path }).summary,
    whoMay(auth)
  ])
  return table(['method', 'path', '', 'token'], rows)
}

function codes(): string {
  const rows = Object.entries(errorCodes).map(([code, { means }]) => [
    String(statusOfCode(code)),
    `\`${code}\``,
    means,
    cures[code] ?? ''
  ])
  return table(['status', 'code', 'meaning', 'what to do'], rows.sort(byStatusAndCode))
}

function byStatusAndCode([a = '', x = '']: string[], [b = '', y = '']: string[]): number {
  return a.localeCompare(b) || (x < y ? -1 : 1)
}

function others(): string {
  const rows = Object.entries(otherCodes).map(([code, { where, means, cure }]) => [where, `\`${code}\``, means, cure])
  return table(['where', 'code', 'meaning', 'what to do'], rows.sort(byStatusAndCode))
}

const sections = [
  { document: 'docs/cli.md', name: 'commands', write: commandPages },
  { document: 'docs/settings.md', name: 'settings', write: settings },
  { document: 'docs/api.md', name: 'routes', write: routes },
  { document: 'docs/errors.md', name: 'codes', write: codes },
  { document: 'docs/errors.md', name: 'other codes', write: others }
]

for (const { document, name, write } of sections) {
  t.test(`the ${name} in ${document} are up to date`, async t => {
    const path = join(top, document)
    const text = readFileSync(path, 'utf8')
    const section = `<!-- ${name} -->\n${await write()}\n<!-- /${name} -->`
    const pattern = new RegExp(`<!-- ${name} -->[^]*<!-- /${name} -->`)
    t.match(text, pattern, 'the section exists')
    if (isUpdate)
      writeFileSync(
        path,
        text.replace(pattern, () => section)
      )
    else t.ok(text.includes(section), `${name} are up to date; UPDATE_DOCS=1 writes them`)
  })
}

t.test('docs/configuration.md names every environment variable that configures svc', async t => {
  const text = readFileSync(join(top, 'docs/configuration.md'), 'utf8')
  const section = /^## Environment$([^]*?)^## /m.exec(text)?.[1] ?? ''
  const lib = join(top, 'lib')
  const files = readdirSync(lib, { recursive: true, encoding: 'utf8' }).filter(name => name.endsWith('.ts'))
  const sources = files.map(name => readFileSync(join(lib, name), 'utf8')).join('\n')
  const names = new Set([...sources.matchAll(/'((?:SVC|ADMIN|NO|FORCE)_[A-Z_]+)'/g)].map(([, name]) => name as string))
  // Set by the command that starts a server.
  names.delete('SVC_SUPERVISED')
  // Set for scripts.
  names.delete('SVC_SCRIPT')
  t.ok(names.has('SVC_HOME') && names.has('SVC_PUBLIC_URL'))
  for (const name of names) t.ok(section.includes(`\`${name}\``), name)
})
