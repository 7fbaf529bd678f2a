import '../../../support/without-dom.js'
import t from 'tap'
import { listNearest, shownEntries } from '../../../../www/elements/base/svc-places.js'
import { stepsOf } from '../../../../www/elements/base/svc-rows.js'

t.test('splits a path into steps in the notation of its system', async t => {
  const cases: Array<[path: string, sep: string, steps: Array<[name: string, path: string]>]> = [
    ['/', '/', [['/', '/']]],
    [
      '/srv/www',
      '/',
      [
        ['/', '/'],
        ['srv', '/srv'],
        ['www', '/srv/www']
      ]
    ],
    [
      '/srv//www/',
      '/',
      [
        ['/', '/'],
        ['srv', '/srv'],
        ['www', '/srv/www']
      ]
    ],
    ['C:\\', '\\', [['C:\\', 'C:\\']]],
    [
      'C:\\sites\\a b',
      '\\',
      [
        ['C:\\', 'C:\\'],
        ['sites', 'C:\\sites'],
        ['a b', 'C:\\sites\\a b']
      ]
    ]
  ]
  for (const [path, sep, steps] of cases) {
    t.same(
      stepsOf(path, sep),
      steps.map(([name, path]) => ({ name, path })),
      path
    )
  }
})

t.test('shows hidden entries on request, or if the filter begins with a dot', async t => {
  const entries = ['Sites', '.ssh', 'notes.log'].map(name => ({
    name,
    path: `/home/${name}`,
    isDir: true,
    isSymlink: false,
    isHidden: name.startsWith('.')
  }))
  const names = (find: string, withHidden = false): string[] =>
    shownEntries(entries, { find, withHidden }).map(({ name }) => name)
  t.same(names(''), ['Sites', 'notes.log'])
  t.same(names('', true), ['Sites', '.ssh', 'notes.log'])
  t.same(names(' S'), ['Sites', 'notes.log'])
  t.same(names('.s'), ['.ssh'])
  t.same(names('s', true), ['Sites', '.ssh', 'notes.log'])
})

t.test('begins at the nearest existing directory', async t => {
  const directories = new Set(['/', '/srv', '/srv/www', '/root', '/home/me'])
  const list = async (path: string) => {
    if (path === '/root') throw new Error('forbidden')
    return { path, parent: null, exists: true, isDir: directories.has(path), truncated: false, entries: [] }
  }
  const cases: Array<[path: string, begun: string]> = [
    ['/srv/www', '/srv/www'],
    ['/srv/www/new/er', '/srv/www'],
    ['/root/x', '/'],
    ['/nowhere', '/'],
    ['relative', '/home/me']
  ]
  for (const [path, begun] of cases) {
    const home = path === 'relative' ? { sep: '\\', home: '/home/me' } : { sep: '/', home: '/home/me' }
    t.equal((await listNearest(list, path, home)).path, begun, path)
  }
})
