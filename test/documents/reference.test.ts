import t from 'tap'
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { statusOfCode } from '../../lib/api/description/document.js'
import { errorCodes } from '../../lib/api/description/errors.js'
import { operations } from '../../lib/api/description/operations.js'
import { apiRoutes } from '../../lib/api/routes.js'
import { commands } from '../../lib/cli/main.js'
import { settingRows } from '../../lib/system/settings.js'
import { slug } from './markdown.js'
import { top } from './document.js'

/**
 * The reference in docs/ comes from the program's own tables: each `<!-- name -->` section must be equal to what they
 * give. `UPDATE_DOCS=1 node dist/test/documents/reference.test.js` writes the sections.
 */
const isUpdate = Boolean(process.env['UPDATE_DOCS'] ?? process.env['UPDATE_README'])

function table(head: string[], rows: string[][]): string {
  const lines = [head, head.map(() => '---'), ...rows].map(cells => `| ${cells.join(' | ')} |`)
  return lines.join('\n')
}

function help(name: string): string {
  return execFileSync(process.execPath, [join(top, 'bin/svc.js'), ...name.split(' '), '--help'], { encoding: 'utf8' }).trim()
}

interface CommandLine {
  name: string
  summary: string
  group?: string
  hidden?: boolean
}

/** The commands in the groups of the help, then the page of each. */
function commandPages(): string {
  const rows = (commands as readonly CommandLine[]).filter(({ name, hidden }) => name !== 'help' && !hidden)
  const groups = [...new Set(rows.map(({ group }) => group))].map(group => {
    const list = table(['command', ''], rows.filter(row => row.group === group).map(({ name, summary }) => [`[\`svc ${name}\`](#${slug(`svc ${name}`)})`, summary]))
    return group === undefined ? list : `**${group.charAt(0).toUpperCase()}${group.slice(1)}**\n\n${list}`
  })
  const pages = rows.map(({ name }) => `## svc ${name}\n\n\`\`\`\n${help(name)}\n\`\`\``)
  return [...groups, ...pages].join('\n\n')
}

function settings(): string {
  const rows = settingRows.map(({ key, default: value, unit, help }) => [`\`${key}\``, value === '' ? '' : `\`${value}\``, unit ?? '', help])
  return table(['setting', 'default', 'unit', ''], rows)
}

/** What each word of the `auth` column admits. */
const who: Record<string, string> = {
  public: 'anybody',
  admin: 'admin token',
  operate: 'admin token, from `allowed_ips`',
  read: "admin token, or the project's own",
  own: "admin token, or the project's own from `allowed_ips`",
  download: "admin token, the project's own, or a ticket",
  admin_download: 'admin token or a ticket',
  token: 'any valid token',
  upload: "the project's token or the global one, from `allowed_ips`",
  upload_check: 'any valid token, from `allowed_ips`',
  metrics: 'admin token, or the value of the setting `metrics_token`',
  terminal: 'admin token or a ticket, from `allowed_ips`',
  local: 'the command line on the machine of the server'
}

/** Stands in for services: the handlers are made here, and never called. */
const nothing: any = new Proxy(() => nothing, { get: () => nothing })

function whoMay(auth: string): string {
  const words = who[auth]
  if (words === undefined) throw new Error(`test/documents/reference.test.ts does not say who may call routes with "${auth}"`)
  return words
}

function routes(): string {
  const rows = apiRoutes(nothing).map(({ method, path, auth }) => [method, `\`${path}\``, operations[`${method} ${path}`]?.summary ?? '', whoMay(auth)])
  return table(['method', 'path', '', 'token'], rows)
}

function codes(): string {
  const rows = Object.keys(errorCodes).map(code => [String(statusOfCode(code)), `\`${code}\``, errorCodes[code]?.means ?? ''])
  return table(['status', 'code', 'meaning'], rows.sort(([a = '', x = ''], [b = '', y = '']) => a.localeCompare(b) || (x < y ? -1 : 1)))
}

const sections = [
  { document: 'docs/cli.md', name: 'commands', write: commandPages },
  { document: 'docs/settings.md', name: 'settings', write: settings },
  { document: 'docs/api.md', name: 'routes', write: routes },
  { document: 'docs/api.md', name: 'codes', write: codes }
]

for (const { document, name, write } of sections) {
  t.test(`the ${name} in ${document} are those of the program`, async t => {
    const path = join(top, document)
    const text = readFileSync(path, 'utf8')
    const section = `<!-- ${name} -->\n${write()}\n<!-- /${name} -->`
    const pattern = new RegExp(`<!-- ${name} -->[^]*<!-- /${name} -->`)
    t.match(text, pattern, 'the section exists')
    if (isUpdate) writeFileSync(path, text.replace(pattern, () => section))
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
  // Given to a server by the command that starts it, not by people.
  names.delete('SVC_SUPERVISED')
  // Given to scripts.
  names.delete('SVC_SCRIPT')
  t.ok(names.has('SVC_HOME') && names.has('SVC_PUBLIC_URL'))
  for (const name of names) t.ok(section.includes(`\`${name}\``), name)
})
