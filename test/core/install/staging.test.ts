import t from 'tap'
import type { Test } from 'tap'
import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmdirSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync
} from 'node:fs'
import { join } from 'node:path'
import { disk, type Disk } from '../../../lib/core/install/disk.js'
import {
  canHoldDirectories,
  type HeldDirectory,
  holdFolders,
  holdTarget,
  identityOf
} from '../../../lib/core/install/held.js'
import { createStage, findStaging, makeStaging, removeStaging } from '../../../lib/core/install/staging.js'
import { snapshot } from '../../support/tree.js'
import { createRecords, type Item } from '../../../lib/core/install/plan.js'

const name = '.svc-staging-dep_x'
const user = process.geteuid?.() ?? 0

function target(directory: string, close: (done: () => void) => void): HeldDirectory {
  const root = holdTarget(disk, join(directory, 'target'))
  close(root.close)
  return root
}

t.test('creates staging, recognizes it by its mark, and removes it', async t => {
  const directory = t.testdir({ target: { file: 'x' } })
  const root = target(directory, t.teardown)
  const staging = makeStaging(disk, root, 'dep_x')
  t.equal(lstatSync(join(directory, 'target', name)).mode & 0o777, 0o700)
  t.throws(() => makeStaging(disk, root, 'dep_x'), {
    code: 'staging_in_the_way',
    message: `Nothing was changed: the target already contains "${name}". Remove it and deploy again`
  })
  const { mark } = staging
  const found = findStaging(disk, root, { deployId: 'dep_x', user, mark })
  t.match(found, { mark })
  found?.close()
  t.equal(findStaging(disk, root, { deployId: 'dep_x', user, mark: 'another' }), null)
  t.equal(findStaging(disk, root, { deployId: 'dep_y', user, mark }), null)
  writeFileSync(`${staging.path}/some`, 'x')
  removeStaging(disk, { root, staging, deployId: 'dep_x' })
  staging.close()
  t.strictSame(readdirSync(join(directory, 'target')), ['file'])
})

t.test(
  'rejects a staging directory that is open to others, owned by another user, or a link',
  { skip: process.geteuid === undefined && 'this system has no owners' },
  async t => {
    const directory = t.testdir({ target: {}, outside: {} })
    const root = target(directory, t.teardown)
    const place = join(directory, 'target', name)
    const find = (): unknown => findStaging(disk, root, { deployId: 'dep_x', user, mark: null })
    mkdirSync(place, 0o755)
    t.equal(find(), null)
    chmodSync(place, 0o700)
    t.not(find(), null)
    if (user === 0) {
      chownSync(place, 65534, 65534)
      t.equal(find(), null)
    }
    rmdirSync(place)
    symlinkSync('../outside', place)
    t.equal(find(), null)
  }
)

t.test(
  'refuses staging that was exchanged before its first use, and writes nothing',
  { skip: !canHoldDirectories && 'directories are held on Linux' },
  async t => {
    const plants: Array<[what: string, plant: (place: string) => void]> = [
      ['a link', place => symlinkSync('../outside', place)],
      ['a directory open to others', place => mkdirSync(place, 0o777)],
      [
        'a directory with a link in it',
        place => {
          mkdirSync(place, 0o700)
          symlinkSync('../../outside', join(place, 'files'))
        }
      ],
      ['a file', place => writeFileSync(place, 'x')],
      ['nothing', () => {}]
    ]
    for (const [what, plant] of plants) {
      const directory = t.testdir({ target: {}, outside: { keep: 'k' } })
      const root = target(directory, t.teardown)
      const place = join(directory, 'target', name)
      const mkdirAndExchange = ((path: string, mode: number) => {
        disk.mkdirSync(path, mode)
        if (!path.endsWith(name)) return
        renameSync(place, join(directory, 'target/away'))
        plant(place)
      }) as Disk['mkdirSync']
      t.throws(
        () => makeStaging({ ...disk, mkdirSync: mkdirAndExchange }, root, 'dep_x'),
        { code: 'staging_not_ours' },
        what
      )
      t.strictSame(snapshot(join(directory, 'outside')), ['keep 644 k'])
      t.strictSame(readdirSync(join(directory, 'target/away')), [])
    }
  }
)

t.test(
  'empties staging even if another user has renamed it',
  { skip: !canHoldDirectories && 'directories are held on Linux' },
  async t => {
    const directory = t.testdir({ target: {}, outside: { keep: 'k' } })
    const root = target(directory, t.teardown)
    const staging = makeStaging(disk, root, 'dep_x')
    writeFileSync(`${staging.path}/some`, 'x')
    renameSync(join(directory, 'target', name), join(directory, 'target/away'))
    symlinkSync('../outside', join(directory, 'target', name))
    removeStaging(disk, { root, staging, deployId: 'dep_x' })
    staging.close()
    t.strictSame(readdirSync(join(directory, 'target/away')), [])
    t.strictSame(snapshot(join(directory, 'outside')), ['keep 644 k'])
  }
)

t.test(
  'what a script of the project does to it does not hide it: owner, mode and name may change',
  { skip: !canHoldDirectories && 'directories are held on Linux' },
  async t => {
    const ways: Array<[what: string, change: (place: string) => void]> = [
      ['chmod -R 755', place => chmodSync(place, 0o755)],
      ['chmod -R a-w', place => [place, join(place, 'aside')].forEach(each => chmodSync(each, 0o555))],
      ['chown -R', place => (user === 0 ? chownSync(place, 65534, 65534) : chmodSync(place, 0o750))],
      ['mv', place => renameSync(place, `${place}.old`)]
    ]
    for (const [what, change] of ways) {
      const directory = t.testdir({ target: { file: 'x' } })
      const root = holdTarget(disk, join(directory, 'target'))
      const staging = makeStaging(disk, root, 'dep_x')
      mkdirSync(`${staging.path}/aside`, 0o700)
      const place = { staging: identityOf(disk, staging) }
      const signs = { deployId: 'dep_x', user, mark: staging.mark, place }
      staging.close()
      change(join(directory, 'target', name))
      t.equal(findStaging(disk, root, { ...signs, place: { staging: '1:1' } }), null, `${what}: only that directory`)
      t.equal(findStaging(disk, root, { ...signs, mark: 'another' }), null, `${what}: only with its mark`)
      const found = findStaging(disk, root, signs)
      t.ok(found, what)
      if (found === null) continue
      writeFileSync(`${found.path}/aside/0`, 'x')
      removeStaging(disk, { root, staging: found, deployId: 'dep_x' })
      found.close()
      root.close()
      t.strictSame(readdirSync(join(directory, 'target')), ['file'], what)
    }
  }
)

const timeMs = 1_700_000_000_000
const file = (path: string, more: Partial<Item> = {}): Item => ({
  path,
  kind: 'file',
  size: 0,
  mode: 0o640,
  mtimeMs: timeMs,
  ...more
})

function start(t: Test, items: Item[], files: Record<string, string> = {}, check?: () => void) {
  const target = t.testdir(files)
  const staging = join(t.testdirName, '.staging')
  mkdirSync(join(staging, 'files'), { recursive: true })
  const root = holdTarget(disk, target)
  const folders = holdFolders(disk, root)
  t.teardown(() => {
    folders.close()
    root.close()
  })
  const records = createRecords(items.length)
  const needs = { disk, folders, staging, items, records, umask: 0o022, toleranceMs: 2, ...(check && { check }) }
  const stage = createStage(needs)
  return { stage, records, target, staged: (path: string) => join(staging, 'files', path) }
}

t.test('stages a small or large file with its contents, mode and time', async t => {
  const { stage, records, staged } = start(t, [file('small', { mode: 0o666 }), file('large')])
  stage.file(0, Buffer.from('contents'))
  const large = stage.largeFile(1)
  large.write(Buffer.from('in '))
  large.write(Buffer.from('pieces'))
  large.finish()
  t.equal(readFileSync(staged('small'), 'utf8'), 'contents')
  t.equal(statSync(staged('small')).mode & 0o777, 0o666, 'ignoring the umask')
  t.equal(readFileSync(staged('large'), 'utf8'), 'in pieces')
  t.equal(statSync(staged('large')).mtimeMs, timeMs)
  t.same([records.outcome(0), records.outcome(1)], ['staged', 'staged'])
})

t.test('does not stage identical files, and records both times if only the time differs', async t => {
  const items = [file('same'), file('older'), file('other')]
  const { stage, records, target, staged } = start(t, items, { same: 'same', older: 'same', other: 'before' })
  for (const [index, { path }] of items.entries()) {
    chmodSync(join(target, path), 0o640)
    utimesSync(join(target, path), timeMs / 1000, path === 'older' ? 1000 : timeMs / 1000)
    records.setExisting(index, 'file')
    stage.file(index, Buffer.from('same'))
  }
  t.same(
    [0, 1, 2].map(index => records.outcome(index)),
    ['unchanged', 'other_time', 'staged']
  )
  t.equal(records.timeBeforeMs(1), 1_000_000)
  t.same(
    items.map(({ path }) => existsSync(staged(path))),
    [false, false, true]
  )
})

t.test('stages a symbolic link as a link', async t => {
  const { stage, records, staged } = start(t, [file('link', { kind: 'symlink', mode: null })])
  stage.link(0, '../elsewhere')
  t.equal(readlinkSync(staged('link')), '../elsewhere')
  t.equal(records.outcome(0), 'staged')
})

t.test('is abandoned while it reads an existing file, however large that is', async t => {
  let checks = 0
  const { stage, records, target } = start(t, [file('a')], { a: '' }, () => {
    if (++checks === 3) throw new Error('abandoned')
  })
  truncateSync(join(target, 'a'), 900 * 2 ** 30)
  records.setExisting(0, 'file')
  t.throws(() => stage.file(0, Buffer.from('new')), /abandoned/)
})
