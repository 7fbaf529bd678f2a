import t from 'tap'
import { mkdirSync, readdirSync, utimesSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { createBuilds, type Linked, linkModules } from '../../../lib/http/static/build.js'
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

const sources = {
  'main.js': [
    "import { add as plus } from './base/add.js';",
    'const total = plus(1, 2);',
    "export const load = name => name === 'a' ? import('./pages/a.js') : import('./pages/b.js');",
    'export { total };'
  ],
  'base/add.js': [
    'let calls = 0;',
    'export function add(a, b) { calls++; return a + b; }',
    'export const count = () => calls;',
    'export const here = import.meta.url;'
  ],
  'base/shared.js': [
    "import { add } from './add.js';",
    'export class Shared { sum = add(2, 2); }',
    'export const state = { uses: 0 };'
  ],
  'pages/a.js': [
    "import { Shared, state } from '../base/shared.js';",
    "import { count } from '../base/add.js';",
    "import { own } from './own.js';",
    'state.uses++;',
    'export const page = { name: "a", own, sum: new Shared().sum, count, state };'
  ],
  'pages/own.js': ['export const own = "own";'],
  'pages/b.js': [
    "import { state } from '../base/shared.js';",
    'state.uses++;',
    'export async function page() { return state; }'
  ]
}

const mapOf = (changes: Record<string, string[]> = {}): Map<string, string> =>
  new Map(Object.entries({ ...sources, ...changes }).map(([name, lines]) => [name, lines.join('\n')]))

const large = { 'base/shared.js': [...sources['base/shared.js'], `const padding = '${'x'.repeat(3_000)}';`] }

for (const { what, changes, shared } of [
  { what: 'a large shared module is a chunk', changes: large, shared: ['shared-1.js'] },
  { what: 'a small shared module is in main.js', changes: {}, shared: [] }
]) {
  t.test(`keeps the behaviour of modules and contains each of them once: ${what}`, async t => {
    const linked = linkModules(mapOf(changes), 'main.js') as Linked
    t.same([...linked.files.keys()].sort(), ['main.js', 'pages/a.js', 'pages/b.js', ...shared])
    t.same(linked.closure('pages/a.js').sort(), ['main.js', 'pages/a.js', ...shared])
    t.same(linked.closure('words/zh/a.js'), ['words/zh/a.js'], 'a module that nothing imports is on its own')
    const directory = t.testdir({ 'package.json': '{"type":"module"}' })
    for (const [name, text] of linked.files) {
      mkdirSync(dirname(join(directory, name)), { recursive: true })
      writeFileSync(join(directory, name), text)
    }
    // The chunk of main has no exports, because a page runs it. The pages show its modules.
    await import(pathToFileURL(join(directory, 'main.js')).href)
    const a = await import(pathToFileURL(join(directory, 'pages/a.js')).href)
    t.match(a.page, { name: 'a', own: 'own', sum: 4 })
    t.equal(a.page.count(), 2, 'main and the page share one module')
    const b = await import(pathToFileURL(join(directory, 'pages/b.js')).href)
    t.equal((await b.page()).uses, 2)
    t.equal(await b.page(), a.page.state)
  })
}

t.test('links nothing that it does not understand', async t => {
  const cases: Array<[what: string, changes: Record<string, string[]>]> = [
    ['a default export', { 'base/add.js': ['export default 1;'] }],
    ['a binding that changes', { 'base/add.js': ['export let add = 1;'] }],
    ['a re-export', { 'base/add.js': ["export { x } from './other.js';"] }],
    ['all of a module', { 'base/add.js': ["import * as all from './shared.js';"] }],
    ['a package', { 'base/add.js': ["import { x } from 'package';"] }],
    ['another name', { 'base/add.js': ['const a = 1;', 'export { a as add };'] }],
    ['a circle', { 'base/add.js': ["import { state } from './shared.js';", 'export const add = () => state;'] }],
    ['a missing module', { 'pages/own.js': ["import { gone } from './gone.js';"] }]
  ]
  for (const [what, changes] of cases) t.equal(linkModules(mapOf(changes), 'main.js'), null, what)
  t.equal(linkModules(new Map(), 'main.js'), null)
})
