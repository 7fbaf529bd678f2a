import t from 'tap'
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { disk, type Disk } from '../../lib/install/disk.js'
import { holdTarget } from '../../lib/install/reach.js'
import { planTarget, type Item, type Plan } from '../../lib/install/plan.js'

const item = (path: string, kind: Item['kind'] = 'file'): Item => ({ path, kind, size: 0, mode: null, mtimeMs: null })

function plan(directory: string, items: Item[]): Plan {
  const root = holdTarget(disk, directory)
  try {
    return planTarget(disk, root, items)
  } finally {
    root.close()
  }
}

t.test('lists folders parents first, with the existing entries of the target', async t => {
  const directory = t.testdir({ a: { file: 'x' }, link: t.fixture('symlink', 'nowhere') })
  const { folders, existing, folderOf } = plan(directory, [
    item('a/file'),
    item('a/new'),
    item('b/c/d'),
    item('link'),
    item('b', 'directory'),
    item('top')
  ])
  t.strictSame(
    folders.map(({ path, exists, item }) => [path, exists, item !== null]),
    [
      ['', true, false],
      ['a', true, false],
      ['b', false, true],
      ['b/c', false, false]
    ]
  )
  t.strictSame(existing, ['file', 'none', 'none', 'symlink', 'none', 'none'])
  t.strictSame(
    folderOf.map(({ path }) => path),
    ['a', 'a', 'b/c', '', '', '']
  )
})

t.test('lists a directory of many items, and looks up names that are missing in the list', async t => {
  const names = Array.from({ length: 12 }, (_, i) => `f${i}`)
  const files = Object.fromEntries(names.slice(0, 6).map(name => [name, 'x']))
  const directory = t.testdir({ a: { ...files, f6: t.fixture('symlink', 'nowhere'), sub: {} } })
  const looks: string[] = []
  const lstatSync = ((path: string, ...rest: []) => {
    looks.push(path.slice(path.lastIndexOf('/') + 1))
    return disk.lstatSync(path, ...rest)
  }) as unknown as Disk['lstatSync']
  const root = holdTarget(disk, directory)
  t.teardown(root.close)
  const all = names.map(name => item(`a/${name}`))
  const { existing } = planTarget({ ...disk, lstatSync }, root, all)
  t.strictSame(existing, [...names.slice(0, 6).map(() => 'file'), 'symlink', ...names.slice(7).map(() => 'none')])
  t.strictSame(
    looks.filter(name => name.startsWith('f')),
    names.slice(7)
  )
  t.match(plan(directory, [...all, item('a/sub')]).inTheWay.get('a/sub'), { code: 'directory_in_the_way' })
})

t.test('finds existing entries that are in the way', async t => {
  const directory = t.testdir({ dir: {}, file: 'x', link: t.fixture('symlink', 'dir') })
  if (process.platform !== 'win32') execFileSync('mkfifo', [join(directory, 'pipe')])
  const cases: Array<[Item, string]> = [
    [item('dir'), 'directory_in_the_way'],
    [item('file/x'), 'file_in_the_way'],
    [item('file', 'directory'), 'file_in_the_way'],
    [item('link/x'), 'written_through_link'],
    [item('link', 'directory'), 'written_through_link'],
    ...(process.platform === 'win32' ? [] : [[item('pipe'), 'special_file_in_the_way'] as [Item, string]])
  ]
  for (const [wanted, code] of cases) {
    if (code === 'special_file_in_the_way') t.throws(() => plan(directory, [wanted]), { kind: 'conflict', code })
    // It may give way if svc owns it.
    else t.match([...plan(directory, [wanted]).inTheWay.values()], [{ kind: 'conflict', code }])
  }
})
