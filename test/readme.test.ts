import t from 'tap'
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { apiRoutes } from '../lib/api/routes.js'
import { settingRows } from '../lib/system/settings.js'

/**
 * The README's reference comes from the program's own tables: each `<!-- name -->` section must be what they say.
 * `UPDATE_README=1 make test TEST=test/readme.test.ts` writes the sections anew.
 */
const top = fileURLToPath(new URL('../../', import.meta.url))
const readmePath = join(top, 'README.md')

function help(...words: string[]): string {
  return execFileSync(process.execPath, [join(top, 'bin/svc.js'), ...words, '--help'], { encoding: 'utf8' })
}

function table(head: string[], rows: string[][]): string {
  const lines = [head, head.map(() => '---'), ...rows].map(cells => `| ${cells.join(' | ')} |`)
  return lines.join('\n')
}

function commands(): string {
  const overview = help()
  const rows = [...overview.matchAll(/^ {2}([a-z:-]+(?: [a-z-]+)?) {2,}(\S.*)$/gm)]
    .map(([, name = '', summary = '']) => ({ name, summary }))
    .filter(({ name }) => name !== 'help')
  const pages = rows.map(({ name }) => help(...name.split(' ')).trim()).join('\n\n\n')
  const list = table(['command', ''], rows.map(({ name, summary }) => [`\`svc ${name}\``, summary]))
  return `${list}\n\n<details>\n<summary>Every option</summary>\n\n\`\`\`\n${pages}\n\`\`\`\n\n</details>`
}

function settings(): string {
  const rows = settingRows.map(({ key, default: value, unit, help }) => [`\`${key}\``, value === '' ? '' : `\`${value}\``, unit ?? '', help])
  return table(['key', 'default', 'unit', ''], rows)
}

/** What the words of the `auth` column admit. */
const who: Record<string, string> = {
  public: 'anybody',
  admin: 'admin token',
  operate: 'admin token, from `allowed_ips`',
  read: "admin token, or the project's own",
  download: "admin token, the project's own, or a ticket",
  own: "admin token, or the project's own from `allowed_ips`",
  token: 'any valid token',
  upload: "the project's token, or the global one",
  upload_check: 'any valid token, from `allowed_ips`',
  terminal: 'admin token or a ticket, from `allowed_ips`',
  local: 'the command line on the machine of the server'
}

/** A stand-in for services whose handlers are made, and never called. */
const nothing: any = new Proxy(() => nothing, { get: () => nothing })

function routes(): string {
  return table(['', '', 'who'], apiRoutes(nothing).map(({ method, path, auth }) => [method, `\`${path}\``, who[auth] ?? auth]))
}

/** The statuses of refusals, as lib/http/reply.ts has them, and the codes that server rooms give. */
function codes(): string {
  const reply = readFileSync(join(top, 'lib/http/reply.ts'), 'utf8')
  const statuses = [...reply.matchAll(/^ {2}(\w+): (\d{3})/gm)].map(([, kind = '', status = '']) => ({ kind, status }))
  const rooms = ['api', 'auth', 'archive', 'deploy', 'http', 'logs', 'projects', 'store', 'system', 'target', 'terminal', 'transfer', 'base']
  const text = rooms.map(room => join(top, 'lib', room)).flatMap(sourcesBelow).map(path => readFileSync(path, 'utf8')).join('\n')
  const found = [...text.matchAll(/new Refusal\(\s*'(\w+)',\s*'(\w+)'/g)].map(([, kind, code]) => ({ kind, code }))
  const rows = [...new Set(statuses.map(({ status }) => status))].map(status => {
    const kinds = statuses.filter(row => row.status === status).map(({ kind }) => kind)
    const mine = new Set(found.filter(({ kind }) => kinds.includes(kind ?? '')).map(({ code }) => `\`${code}\``))
    return [status, [...mine].sort().join(', ')]
  })
  return table(['status', 'codes'], [...rows.filter(([, list]) => list !== ''), ['500', '`internal_error`, with an id under which the log tells the rest']])
}

function sourcesBelow(directory: string): string[] {
  try {
    return readdirSync(directory, { recursive: true, encoding: 'utf8' }).sort().filter(name => name.endsWith('.ts')).map(name => join(directory, name))
  } catch {
    return []
  }
}

for (const [name, write] of Object.entries({ commands, settings, routes, codes })) {
  t.test(`the README's ${name} are those of the program`, async t => {
    const readme = readFileSync(readmePath, 'utf8')
    const section = `<!-- ${name} -->\n${write()}\n<!-- /${name} -->`
    const pattern = new RegExp(`<!-- ${name} -->[^]*<!-- /${name} -->`)
    t.match(readme, pattern, 'the section is there')
    if (process.env['UPDATE_README']) writeFileSync(readmePath, readme.replace(pattern, () => section))
    else t.ok(readme.includes(section), `${name} are up to date; UPDATE_README=1 writes them anew`)
  })
}

t.test('the README names every variable of the environment that svc is configured by', async t => {
  const readme = readFileSync(readmePath, 'utf8')
  const section = /^### Environment$([^]*?)^#/m.exec(readme)?.[1] ?? ''
  const text = sourcesBelow(join(top, 'lib')).map(path => readFileSync(path, 'utf8')).join('\n')
  const names = new Set([...text.matchAll(/'((?:SVC|ADMIN|NO|FORCE)_[A-Z_]+)'/g)].map(([, name]) => name as string))
  // Given to a server by the command that starts it, not by people.
  names.delete('SVC_SUPERVISED')
  // Given to scripts.
  names.delete('SVC_SCRIPT')
  t.ok(names.has('SVC_HOME') && names.has('SVC_PUBLIC_URL'))
  for (const name of names) t.ok(section.includes(`\`${name}\``), name)
})
