import t from 'tap'
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { createHash } from 'node:crypto'
import { disk, type Disk } from '../../../lib/core/install/disk.js'
import { holdTarget } from '../../../lib/core/install/held.js'
import { createRecords, type Item, type Plan, planTarget, recordsIn } from '../../../lib/core/install/plan.js'

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

const sha256 = (text: string): Buffer => createHash('sha256').update(text).digest()

t.test('a new record is pending and has no existing entry', async t => {
  const records = createRecords(3)
  for (const index of [0, 1, 2]) {
    t.equal(records.outcome(index), 'pending')
    t.equal(records.existing(index), 'none')
    t.equal(records.before(index), null)
  }
})

t.test('another thread reads the record of an item, and its neighbours are unchanged', async t => {
  const records = createRecords(3)
  records.setExisting(1, 'symlink')
  records.setBefore(
    1,
    { size: 2 ** 40 + 1, mode: 0o120777, gid: 7, sha256: sha256('old') },
    { mtimeMs: 1234567890123.5, uid: 2 ** 32 - 2, gid: 7 }
  )
  const owner = { uid: 2 ** 32 - 2, gid: 8 }
  const placed = {
    mode: 0o100640,
    gid: 2 ** 32 - 2,
    sha256: sha256('new'),
    mtimeMs: 1700000000000.25,
    ino: 2 ** 45 + 1,
    owner
  }
  records.settle(1, 'other_time', placed)
  const other = recordsIn(records.memory)
  t.equal(other.existing(1), 'symlink')
  t.equal(other.outcome(1), 'other_time')
  t.equal(other.mode(1), 0o100640)
  t.ok(other.sha256(1).equals(sha256('new')))
  t.equal(other.timeBeforeMs(1), 1234567890123.5)
  t.equal(other.mtimeMs(1), 1700000000000.25)
  t.equal(other.ino(1), 2 ** 45 + 1)
  t.equal(other.gid(1), 2 ** 32 - 2)
  const before = other.before(1)
  t.match(before, { size: 2 ** 40 + 1, mode: 0o120777, gid: 7 })
  t.ok(sha256('old').equals(before?.sha256 ?? Buffer.alloc(0)))
  t.strictSame(other.ownerBefore(1), { ...owner, gid: 7 })
  for (const index of [0, 2]) t.equal(other.outcome(index), 'pending')
  records.settle(1, 'staged', { ...placed, owner: { ...owner, gid: 7 } })
  t.equal(other.ownerBefore(1), null, 'the new entry has the same')
  records.settle(2, 'staged', placed)
  t.equal(other.ownerBefore(2), null, 'there was none')
})

t.test('each of many items has a record of its own', async t => {
  const records = createRecords(10_000)
  const chosen = [0, 4095, 4096, 8191, 8192, 9999]
  const placed = { mode: 0o100644, gid: 0, sha256: sha256('new'), mtimeMs: 0 }
  for (const index of chosen) records.settle(index, 'staged', { ...placed, ino: index })
  const other = recordsIn(records.memory)
  const staged = Array.from({ length: 10_000 }, (_, index) => index).filter(index => other.outcome(index) === 'staged')
  t.strictSame(staged, chosen)
  t.strictSame(staged.map(other.ino), chosen)
})
