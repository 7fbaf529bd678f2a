import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import t from 'tap'
import { blocksOf, documents, top } from './document.js'
import { anchorsOf, headingsOf, linksOf, slug } from './markdown.js'

const read = (document: string): string => readFileSync(join(top, document), 'utf8')

for (const document of [...documents, 'lib/README.md', 'CHANGELOG.md', 'CONTRIBUTING.md']) {
  t.test(`every link of ${document} exists`, async t => {
    for (const { line, to } of linksOf(read(document))) {
      // The tests run without internet, so other addresses are only parsed.
      if (/^https:\/\//.test(to)) {
        t.ok(URL.canParse(to), `${document}:${line} ${to}`)
        continue
      }
      const [path = '', anchor] = to.split('#')
      const file = path === '' ? document : relative(top, join(top, dirname(document), path))
      t.ok(existsSync(join(top, file)), `${document}:${line} ${to}`)
      if (anchor !== undefined && statSync(join(top, file)).isFile())
        t.ok(anchorsOf(read(file)).has(anchor), `${document}:${line} ${to}: the heading exists`)
    }
  })
}

t.test('the program names only documents that exist', async t => {
  const sources = ['lib', 'www', 'bin'].flatMap(directory =>
    readdirSync(join(top, directory), { recursive: true, encoding: 'utf8' })
      .filter(path => /\.(ts|js|html)$/.test(path))
      .map(path => join(directory, path))
  )
  const named = sources.flatMap(source =>
    [...read(source).matchAll(/(?<![\w/.-])docs\/[\w./-]+\.md(#[\w-]+)?/g)].map(([name]) => ({ source, name }))
  )
  t.ok(named.length > 3)
  for (const { source, name } of named) {
    const [path = '', anchor] = name.split('#')
    t.ok(
      existsSync(join(top, path)) && (anchor === undefined || anchorsOf(read(path)).has(anchor)),
      `${source}: ${name}`
    )
  }
})

t.test('docs/README.md and the table of the README list every document', async t => {
  const linked = new Set(linksOf(read('docs/README.md')).map(({ to }) => to))
  for (const name of readdirSync(join(top, 'docs'))) {
    if (name === 'README.md' || name === 'pictures') continue
    t.ok(linked.has(name) || linked.has(`${name}/`), name)
  }
  const [, table = ''] = /^## Documents$([^]*?)^## /m.exec(read('README.md')) ?? []
  const inTable = new Set(linksOf(table).map(({ to }) => to))
  for (const document of documents)
    if (!document.endsWith('README.md')) t.ok(inTable.has(document), `${document} is in the table of the README`)
})

t.test('every picture is shown in a document', async t => {
  const shown = new Set(
    documents.flatMap(document => linksOf(read(document)).map(({ to }) => join(dirname(document), to)))
  )
  for (const name of readdirSync(join(top, 'docs/pictures'))) t.ok(shown.has(join('docs/pictures', name)), name)
})

t.test('the README is short, has a table of contents, and installs the command before it uses it', async t => {
  const readme = read('README.md')
  t.ok(readme.split('\n').length <= 171, 'at most 170 lines')
  const sections = headingsOf(readme, 2)
  const [, contents = ''] = /^## Contents$([^]*?)^## /m.exec(readme) ?? []
  t.same(
    linksOf(contents).map(({ to }) => to),
    sections.filter(name => name !== 'Contents').map(name => `#${slug(name)}`)
  )
  const lines = blocksOf('README.md').flatMap(({ text }) => text.split('\n'))
  const installed = lines.findIndex(line => line.includes('/usr/local/bin/svc'))
  t.ok(installed >= 0 && installed < lines.findIndex(line => /^(\w+=\S+ )?svc /.test(line)))
})

t.test('the files that lib/README.md and docs/decisions.md name exist', async t => {
  const places = [
    '',
    'lib',
    'lib/deploy/output',
    'lib/http/core',
    'lib/http/websocket',
    'lib/core/install',
    'lib/operate/logs/tail',
    'lib/deploy',
    'www/elements/terminal',
    'www/terminal'
  ]
  for (const document of ['lib/README.md', 'docs/decisions.md']) {
    const named = [...read(document).matchAll(/(?<![\w/-])((?:[\w-]+\/)*[\w.-]+\.ts)\b/g)].map(
      ([, name]) => name as string
    )
    t.ok(named.length > 30)
    // A row of the map names files of its room; the README stands in lib.
    const rows = [...read(document).matchAll(/^\| `([\w-]+\/)` \| (.*) \|$/gm)].flatMap(([, room, text = '']) =>
      [...text.matchAll(/`([\w./-]+(?:\.ts|\/))`/g)].map(([, name]) => join('lib', room as string, name as string))
    )
    t.equal(rows.length > 50, document === 'lib/README.md')
    for (const path of rows) t.ok(existsSync(join(top, path)), `${document}: ${path}`)
    const rooms = document === 'lib/README.md' ? readdirSync(join(top, 'lib')).map(name => `lib/${name}`) : []
    for (const name of named)
      t.ok(
        [...places, ...rooms].some(place => existsSync(join(top, place, name))),
        `${document}: ${name}`
      )
  }
})
