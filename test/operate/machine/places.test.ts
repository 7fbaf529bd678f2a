import { chmodSync, mkdirSync, realpathSync, symlinkSync, writeFileSync } from 'node:fs'
import { join, sep } from 'node:path'
import t from 'tap'
import type { Refusal } from '../../../lib/base/errors.js'
import { createPlaces } from '../../../lib/operate/machine/places.js'

const root = realpathSync(t.testdir({ sites: { 'b.txt': 'b', '.hidden': {}, a: {}, secret: { inside: '' } } }))
const sites = join(root, 'sites')
symlinkSync('a', join(sites, 'link'))
symlinkSync('secret', join(sites, 'way'))
symlinkSync('nothing', join(sites, 'broken'))
const places = createPlaces({ isDenied: path => path === join(sites, 'secret') })
const names = async (include: 'dirs' | 'files' | 'both') =>
  (await places.list(sites, include)).entries.map(({ name }) => name)

t.test('returns the places where browsing starts', async t => {
  t.match(await places.home(), { home: String, cwd: process.cwd(), sep, roots: [String] })
})

t.test('lists directories first, follows links, and omits denied places and broken links', async t => {
  t.same(await names('both'), ['.hidden', 'a', 'link', 'b.txt'])
  t.same(await names('dirs'), ['.hidden', 'a', 'link'])
  t.same(await names('files'), ['b.txt'])
  const { entries, ...listing } = await places.list(`${sites}/`, 'both')
  t.same(listing, { path: sites, parent: root, exists: true, isDir: true, truncated: false })
  t.same(entries[0], { name: '.hidden', path: join(sites, '.hidden'), isDir: true, isSymlink: false, isHidden: true })
  t.match(entries[2], { isDir: true, isSymlink: true })
})

t.test('lists nothing for a file or a missing path', async t => {
  t.match(await places.list(join(sites, 'b.txt'), 'both'), { exists: true, isDir: false, entries: [] })
  t.match(await places.list(join(sites, 'gone'), 'both'), { exists: false, isDir: false, parent: sites, entries: [] })
  t.equal((await places.list('/', 'dirs')).parent, null)
})

t.test('refuses relative paths, NUL characters and denied places', async t => {
  const cases: Array<[path: string, kind: Refusal['kind']]> = [
    ['sites', 'invalid'],
    [`${sites}\0`, 'invalid'],
    [join(sites, 'secret'), 'forbidden'],
    [join(sites, 'a/../secret'), 'forbidden'],
    [join(sites, 'way'), 'forbidden']
  ]
  for (const [path, kind] of cases) await t.rejects(places.list(path, 'both'), { kind } as Refusal, path)
})

t.test(
  'a directory this user may not read',
  { skip: process.getuid?.() === 0 && 'root may read everything' },
  async t => {
    chmodSync(join(sites, 'a'), 0)
    await t.rejects(places.list(join(sites, 'a'), 'both'), { kind: 'forbidden' } as Refusal)
    chmodSync(join(sites, 'a'), 0o755)
  }
)

t.test('returns at most 1,000 entries after the filter', async t => {
  const many = join(root, 'many')
  mkdirSync(many)
  for (let i = 0; i < 1001; i++) writeFileSync(join(many, `f${i}`), '')
  mkdirSync(join(many, 'd'))
  const { entries, truncated } = await places.list(many, 'files')
  t.equal(entries.length, 1000)
  t.equal(truncated, true)
  t.match(await places.list(many, 'dirs'), { truncated: false, entries: [{ name: 'd' }] })
})
