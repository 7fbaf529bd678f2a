import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
  type PathLike
} from 'node:fs'
import { dirname, join } from 'node:path'
import t, { type Test } from 'tap'
import { disk, type Disk } from '../../../lib/core/install/disk.js'
import { putBack, type PutBackNeeds } from '../../../lib/core/install/put-back.js'
import { holdTarget } from '../../../lib/core/install/held.js'
import type { JournalLine } from '../../../lib/core/install/journal.js'

/** A target with these files, and a staging directory in it. */
function stage(t: Test, files: Record<string, string>) {
  const target = t.testdir({ '.staging': { files: {}, aside: {} } })
  for (const [path, contents] of Object.entries(files)) {
    mkdirSync(dirname(join(target, path)), { recursive: true })
    writeFileSync(join(target, path), contents)
  }
  const undo = (lines: JournalLine[], given: Partial<PutBackNeeds> = {}, used: Disk = disk): string[] => {
    const root = holdTarget(used, target)
    try {
      return putBack({ disk: used, root, staging: join(target, '.staging'), ...given }, lines)
    } finally {
      root.close()
    }
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

t.test('makes folders again, and keeps what is in the way', async t => {
  const modes = new Map([
    ['a', 0o750],
    ['a/b', 0o711]
  ])
  const ways: Array<[what: string, change: (target: string) => void, kept: string[]]> = [
    ['removed', target => rmSync(join(target, 'a'), { recursive: true }), []],
    ['renamed', target => renameSync(join(target, 'a'), join(target, 'moved')), []],
    [
      'became a file',
      target => {
        rmSync(join(target, 'a'), { recursive: true })
        writeFileSync(join(target, 'a'), 'mine')
      },
      ['a']
    ],
    [
      'became a link',
      target => {
        renameSync(join(target, 'a'), join(target, 'moved'))
        symlinkSync('moved', join(target, 'a'))
      },
      ['a']
    ],
    [
      'its file became a directory',
      target => {
        rmSync(join(target, 'a/b/page'))
        mkdirSync(join(target, 'a/b/page/deep'), { recursive: true })
        chmodSync(join(target, 'a'), 0o750)
        chmodSync(join(target, 'a/b'), 0o711)
      },
      ['a/b/page']
    ]
  ]
  const lines: JournalLine[] = [
    { kind: 'R', path: 'a/b/page', aside: 0 },
    { kind: 'X', path: 'a/old', aside: 1 }
  ]
  for (const [what, change, kept] of ways) {
    const { target, undo, read } = stage(t, {
      'a/b/page': 'new',
      '.staging/aside/0': 'old',
      '.staging/aside/1': 'older'
    })
    change(target)
    undo(lines, { modes, displacing: { keep: () => false } })
    t.equal(read('a/b/page'), 'old', what)
    t.equal(read('a/old'), 'older', what)
    t.equal(statSync(join(target, 'a')).mode & 0o777, 0o750, what)
    t.equal(statSync(join(target, 'a/b')).mode & 0o777, 0o711, what)
    for (const path of kept) t.ok(lstatSync(join(target, '.staging/displaced', path)), what)
    undo(lines, { modes, displacing: { keep: () => false } })
    t.equal(read('a/b/page'), 'old', `${what}, the second time`)
  }
})

t.test('names the earlier files that cannot be put back, and keeps them', async t => {
  const { target, undo, read } = stage(t, {
    'a/page': 'new',
    b: 'new',
    '.staging/aside/0': 'old',
    '.staging/aside/1': 'old b'
  })
  rmSync(join(target, 'a/page'))
  mkdirSync(join(target, 'a/page'))
  const busy = {
    ...disk,
    renameSync(from: PathLike, to: PathLike): void {
      if (String(from).endsWith('/page')) throw Object.assign(new Error('EBUSY: a mount point'), { code: 'EBUSY' })
      disk.renameSync(from, to)
    }
  }
  const lines: JournalLine[] = [
    { kind: 'R', path: 'a/page', aside: 0 },
    { kind: 'R', path: 'b', aside: 1 }
  ]
  t.strictSame(undo(lines, { displacing: { keep: () => false } }, busy), ['a/page'])
  t.equal(read('.staging/displaced/.earlier/a/page'), 'old')
  t.equal(read('b'), 'old b')
})
