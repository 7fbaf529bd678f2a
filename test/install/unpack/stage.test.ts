import {
  mkdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  chmodSync,
  existsSync,
  truncateSync,
  utimesSync
} from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { disk } from '../../../lib/install/disk.js'
import { holdFolders } from '../../../lib/install/folders.js'
import type { Item } from '../../../lib/install/plan.js'
import { holdTarget } from '../../../lib/install/reach.js'
import { createRecords } from '../../../lib/install/record.js'
import { createStage } from '../../../lib/install/unpack/stage.js'

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
