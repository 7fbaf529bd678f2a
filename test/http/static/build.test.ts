import { mkdirSync, readdirSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
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

t.test('links the panel', async t => {
  const www = fileURLToPath(new URL('../../../www/', import.meta.url))
  const build = await createBuilds(www).current()
  t.ok(build?.linked, 'all of its modules are understood')
  const pages = readdirSync(join(www, 'pages')).filter(name => name.endsWith('.js') && name !== 'page.js')
  for (const name of pages) t.ok((build?.linked?.closure(`pages/${name}`).length ?? Infinity) <= 20, name)
})
