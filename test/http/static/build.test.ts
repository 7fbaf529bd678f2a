import t from 'tap'
import { mkdirSync, readdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createBuilds } from '../../../lib/http/static/build.js'
import { until } from '../../support/until.js'

t.test('names a build by its content, and keeps the previous one', async t => {
  const directory = t.testdir({
    'main.js': 'const a = 1;',
    'main.d.ts': '',
    '.hidden': '',
    'index.html': '',
    icons: { 'a.svg': '<svg/>' }
  })
  const builds = createBuilds(directory)
  const first = await builds.current()
  t.match(first?.directory, /^_[0-9a-f]{16}$/)
  t.same([...(first?.files.keys() ?? [])].sort(), ['icons/a.svg', 'index.html', 'main.js'])
  t.equal((await createBuilds(directory).current())?.directory, first?.directory, 'a restart changes nothing')
  utimesSync(join(directory, 'main.js'), 1, 1)
  t.equal((await createBuilds(directory).current())?.directory, first?.directory, 'the time of a file changes nothing')

  writeFileSync(join(directory, 'icons/a.svg'), '<svg><g/></svg>')
  await until(async () => (await builds.current())?.directory !== first?.directory)
  t.equal(await builds.find(first?.directory as string), first, 'an older page finds its modules')
  t.equal(await builds.find('_0000000000000000'), undefined)
  mkdirSync(join(directory, 'more'))
  writeFileSync(join(directory, 'more/b.js'), '')
  const second = (await builds.current())?.directory
  await until(async () => (await builds.current())?.directory !== second)
  t.equal(await builds.find(first?.directory as string), undefined, 'not forever')
})

t.test('has no build for a directory without main.js', async t => {
  t.equal(await createBuilds(t.testdir({ 'index.html': '' })).current(), null)
  t.equal(await createBuilds(join(t.testdir(), 'gone')).current(), null)
})

t.test('serves what the compiler wrote, and names what a module needs', async t => {
  const www = fileURLToPath(new URL('../../../www/', import.meta.url))
  const build = await createBuilds(www).current()
  for (const [name, bytes] of build?.files ?? [])
    if (!readFileSync(join(www, name)).equals(bytes)) t.fail(`${name} is not what lies in dist/www`)
  const pages = readdirSync(join(www, 'pages')).filter(name => name.endsWith('.js') && name !== 'page.js')
  t.ok(pages.length > 15)
  for (const name of pages) {
    const needed = new Set(['main.js', `pages/${name}`].flatMap(entry => build?.closure(entry) ?? []))
    t.ok(needed.size <= 40, `${name} needs ${needed.size} modules`)
    for (const each of needed) if (build?.files.has(each) !== true) t.fail(`${name} needs ${each}, which is not there`)
  }
})

t.test('follows static imports only', async t => {
  const directory = t.testdir({
    'main.js': [
      "import { add as plus } from './base/add.js';",
      'import "./base/bare.js";',
      "export { page } from './base/again.js';",
      "import path from 'package';",
      "export const load = () => import('./later.js');"
    ].join('\n'),
    'later.js': '',
    base: {
      'add.js': "import { shared } from './shared.js';\nexport const add = shared;",
      'shared.js': "import './add.js';\nexport const shared = 1;",
      'bare.js': '',
      'again.js': 'export const page = 1;'
    }
  })
  const build = await createBuilds(directory).current()
  const needed = ['base/add.js', 'base/again.js', 'base/bare.js', 'base/shared.js', 'main.js']
  t.same(build?.closure('main.js').sort(), needed.sort(), 'a circle ends')
  t.same(build?.closure('words/zh/a.js'), ['words/zh/a.js'], 'a module that nothing imports is on its own')
})
