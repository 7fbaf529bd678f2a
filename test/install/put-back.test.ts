import { existsSync, mkdirSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t, { type Test } from 'tap'
import { disk } from '../../lib/install/disk.js'
import { putBack } from '../../lib/install/put-back.js'
import { holdTarget } from '../../lib/install/reach.js'
import type { JournalLine } from '../../lib/install/journal-line.js'

/** A target with these files, and a staging directory in it. */
function stage(t: Test, files: Record<string, string>) {
  const target = t.testdir({ '.staging': { files: {}, aside: {} } })
  for (const [path, contents] of Object.entries(files)) {
    mkdirSync(dirname(join(target, path)), { recursive: true })
    writeFileSync(join(target, path), contents)
  }
  const undo = (lines: JournalLine[]): void => {
    const root = holdTarget(disk, target)
    putBack({ disk, root, staging: join(target, '.staging') }, lines)
    root.close()
  }
  return { target, undo, read: (path: string) => readFileSync(join(target, path), 'utf8') }
}

t.test('restores a replaced file, and changes nothing the second time', async t => {
  const { undo, read } = stage(t, { page: 'new', '.staging/aside/0': 'old' })
  const lines: JournalLine[] = [{ kind: 'R', path: 'page', aside: 0 }]
  undo(lines)
  t.equal(read('page'), 'old')
  undo(lines)
  t.equal(read('page'), 'old')
})

t.test('leaves a file that was not replaced yet', async t => {
  const { undo, read } = stage(t, { page: 'old', '.staging/aside/0': 'old', '.staging/files/page': 'new' })
  undo([{ kind: 'R', path: 'page', aside: 0 }])
  t.equal(read('page'), 'old')
  t.equal(read('.staging/files/page'), 'new')
})

t.test('moves a new file back to staging', async t => {
  const { undo, read, target } = stage(t, { added: 'new' })
  undo([{ kind: 'N', path: 'added' }])
  t.notOk(existsSync(join(target, 'added')))
  t.equal(read('.staging/files/added'), 'new')
})

t.test('removes a new directory, but not files that somebody else put into it', async t => {
  const lines: JournalLine[] = [
    { kind: 'D', path: 'fresh' },
    { kind: 'd', path: 'fresh/deep' },
    { kind: 'n', path: 'fresh/deep/a' }
  ]
  const ours = stage(t, { 'fresh/deep/a': 'a' })
  ours.undo(lines)
  t.notOk(existsSync(join(ours.target, 'fresh')))
  const shared = stage(t, { 'fresh/deep/a': 'a', 'fresh/theirs': 'x' })
  shared.undo(lines)
  t.same(readdirSync(join(shared.target, 'fresh')), ['theirs'])
})

t.test('brings a removed file and its directory back, and keeps what took their place', async t => {
  const lines: JournalLine[] = [
    { kind: 'X', path: 'old/a', aside: 5 },
    { kind: 'X', path: 'b', aside: 6 },
    { kind: 'X', path: 'c', aside: 7 },
    { kind: 'x', path: 'old', mode: 0o750 }
  ]
  const { undo, read, target } = stage(t, {
    c: 'not removed yet',
    b: 'theirs',
    '.staging/aside/5': 'a',
    '.staging/aside/6': 'b'
  })
  undo(lines)
  t.strictSame(['old/a', 'b', 'c'].map(read), ['a', 'b', 'not removed yet'])
  t.equal(statSync(join(target, 'old')).mode & 0o777, 0o750)
  t.equal(read('.staging/displaced/b'), 'theirs')
  undo(lines)
  t.strictSame(['old/a', 'b', 'c'].map(read), ['a', 'b', 'not removed yet'])
})
