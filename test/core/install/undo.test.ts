import t from 'tap'
import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync
} from 'node:fs'
import { join } from 'node:path'
import { disk, type Disk } from '../../../lib/core/install/disk.js'
import { beginJournal, journalAt } from '../../../lib/core/install/journal.js'
import {
  describeJournal,
  listJournals,
  ownerPathOf,
  readOwner,
  recover as recoverFile,
  removeJournalFiles,
  removeLeftOwners,
  writeOwner
} from '../../../lib/core/install/undo.js'
import { snapshot } from '../../support/tree.js'

const recover = (path: string) => recoverFile(disk, journalAt(disk, path))

/** A target in the middle of a commit: `app/old` replaced, `new` and `fresh` moved, `late` not yet. */
async function interrupted(directory: string, name = 'target'): Promise<{ target: string; journal: string }> {
  const target = join(directory, name)
  const staging = join(target, '.svc-staging-dep_x')
  mkdirSync(staging, { mode: 0o700, recursive: true })
  mkdirSync(join(staging, 'files/app'), { recursive: true })
  mkdirSync(join(staging, 'aside'))
  mkdirSync(join(target, 'app'))
  mkdirSync(join(target, 'fresh/deep'), { recursive: true })
  const files = {
    'app/old': 'new contents',
    'new': 'new',
    late: 'not touched yet',
    'fresh/a': 'a',
    'fresh/deep/b': 'b',
    '.svc-staging-dep_x/aside/0': 'old contents',
    '.svc-staging-dep_x/files/late': 'late'
  }
  for (const [path, contents] of Object.entries(files)) writeFileSync(join(target, path), contents)
  const path = join(directory, 'dep_x.undo')
  const journal = await beginJournal(journalAt(disk, path), target)
  await journal.ready([
    { kind: 'D', path: 'fresh' },
    { kind: 'd', path: 'fresh/deep' },
    { kind: 'n', path: 'fresh/a' },
    { kind: 'n', path: 'fresh/deep/b' },
    { kind: 'N', path: 'new' },
    { kind: 'R', path: 'app/old', aside: 0 },
    { kind: 'R', path: 'late', aside: 1 }
  ])
  return { target, journal: path }
}

t.test('undoes only the actions that were done', async t => {
  const { target, journal } = await interrupted(t.testdir())
  t.strictSame(describeJournal(journal), { target, helper: null })
  t.equal(recover(journal), 'put back')
  t.strictSame(snapshot(target), ['app/ 755', 'app/old 644 old contents', 'late 644 not touched yet'])
})

t.test('restores a time if it was set and the file is unchanged since', async t => {
  const directory = t.testdir({
    target: { set: 'a', 'not set': 'b', 'changed since': 'c', folder: { 'with space': 'd' } }
  })
  const target = join(directory, 'target')
  const times = { set: 2000, 'not set': 1000, 'changed since': 9000, 'folder/with space': 2000 }
  for (const [path, ms] of Object.entries(times)) utimesSync(join(target, path), ms / 1000, ms / 1000)
  const path = join(directory, 'dep_x.undo')
  const journal = await beginJournal(journalAt(disk, path), target)
  mkdirSync(join(target, '.svc-staging-dep_x'), 0o700)
  mkdirSync(join(target, '.svc-staging-dep_x/files'))
  mkdirSync(join(target, '.svc-staging-dep_x/aside'))
  await journal.ready([...Object.keys(times), 'gone'].map(path => ({ kind: 'T', path, fromMs: 1000, toMs: 2000 })))
  t.equal(recover(path), 'put back')
  t.strictSame(
    Object.keys(times).map(path => statSync(join(target, path)).mtimeMs),
    [1000, 1000, 9000, 1000]
  )
})

t.test('restores a time to the microsecond', async t => {
  const directory = t.testdir({ target: {} })
  const target = join(directory, 'target')
  const staging = join(target, '.svc-staging-dep_x')
  for (const name of ['files', 'aside']) mkdirSync(join(staging, name), { mode: 0o700, recursive: true })
  const names = Array.from({ length: 50 }, (_, i) => `f${i}`)
  const nanoseconds = (): bigint[] => names.map(name => statSync(join(target, name), { bigint: true }).mtimeNs)
  names.forEach((name, i) => {
    writeFileSync(join(target, name), name)
    const seconds = 1_700_000_000 + (i * 1019 + 0.5) / 1e6
    utimesSync(join(target, name), seconds, seconds)
  })
  const before = nanoseconds()
  const lines = names.map(path => ({
    kind: 'T' as const,
    path,
    fromMs: statSync(join(target, path)).mtimeMs,
    toMs: 2000
  }))
  for (const name of names) utimesSync(join(target, name), 2, 2)
  const path = join(directory, 'dep_x.undo')
  await (await beginJournal(journalAt(disk, path), target)).ready(lines)
  t.equal(recover(path), 'put back')
  t.strictSame(nanoseconds(), before)
})

t.test('moves the old file over a new one that has another name', async t => {
  const { target, journal } = await interrupted(t.testdir())
  const links: number[] = []
  const renameSync: Disk['renameSync'] = (from, to) => {
    if (String(from).endsWith('/aside/0')) links.push(statSync(join(target, 'app/old')).nlink)
    disk.renameSync(from, to)
  }
  t.equal(recoverFile({ ...disk, renameSync }, journalAt(disk, journal)), 'put back')
  t.strictSame(links, [2], 'the rename ends no file whose contents are being written')
  t.equal(statSync(join(target, 'app/old')).nlink, 1)
})

/**
 * A disk on which the n-th call and all later ones fail, as if the process had been killed. Calls in `refused` never
 * work.
 */
function endingDisk(n: number, refused: Partial<Disk>): { disk: Disk; calls(): number } {
  let calls = 0
  const ending = new Proxy(
    { ...disk, ...refused },
    {
      get(real, name) {
        const call = real[name as keyof Disk] as (...args: unknown[]) => unknown
        return (...args: unknown[]) => {
          if (++calls >= n) throw Object.assign(new Error('EIO: killed'), { code: 'EIO' })
          return call(...args)
        }
      }
    }
  )
  return { disk: ending, calls: () => calls }
}

t.test('putting back can be interrupted at any call and started again', async t => {
  const refuse = (code: string) => (): never => {
    throw Object.assign(new Error(code), { code })
  }
  const kinds: Array<[what: string, refused: Partial<Disk>, step: number]> = [
    ['hard links', {}, 1],
    ['no hard links', { linkSync: refuse('EPERM') }, 3],
    ['a full disk', { linkSync: refuse('ENOSPC') }, 3]
  ]
  for (const [what, refused, step] of kinds) {
    let ended = 0
    for (let n = 1; ; n += step) {
      const { target, journal } = await interrupted(t.testdir())
      const first = endingDisk(n, refused)
      try {
        recoverFile(first.disk, journalAt(first.disk, journal))
      } catch {
        ended++
        // A second time, which gets further or less far than the first.
        const second = endingDisk(Math.ceil(n * 1.3), refused)
        try {
          recoverFile(second.disk, journalAt(second.disk, journal))
        } catch {
          recoverFile({ ...disk, ...refused }, journalAt(disk, journal))
        }
      }
      const now = snapshot(target)
      const expected = ['app/ 755', 'app/old 644 old contents', 'late 644 not touched yet']
      if (JSON.stringify(now) !== JSON.stringify(expected)) t.strictSame(now, expected, `${what}, call ${n}`)
      if (first.calls() < n) break
    }
    t.ok(ended > 10, `${what}: it ended early ${ended} times`)
  }
})

t.test('keeps files that somebody else put into a new directory', async t => {
  const { target, journal } = await interrupted(t.testdir())
  writeFileSync(join(target, 'fresh/deep/upload'), 'a visitor')
  recover(journal)
  t.match(snapshot(target).join('\n'), 'fresh/ 755\nfresh/deep/ 755\nfresh/deep/upload 644 a visitor')
})

t.test('recovers a done or torn journal, and one without its staging directory', async t => {
  const done = await interrupted(t.testdir())
  appendFileSync(done.journal, 'done\n')
  t.equal(recover(done.journal), 'complete')
  t.match(snapshot(done.target).join('\n'), 'app/old 644 new contents')

  const whole = readFileSync((await interrupted(t.testdir())).journal)
  for (let length = 0; length < whole.length; length++) {
    const { target, journal } = await interrupted(t.testdir())
    writeFileSync(journal, whole.subarray(0, length))
    const outcome = recover(journal)
    if (outcome !== 'untouched') t.equal(outcome, 'untouched', `${length} bytes`)
    if (!snapshot(target).includes('new 644 new')) t.fail(`${length} bytes: something was undone`)
  }
  const zeroed = await interrupted(t.testdir())
  writeFileSync(zeroed.journal, readFileSync(zeroed.journal, 'utf8').replace('\nD ', `\n${'\0'.repeat(41)}D `))
  t.equal(
    recover(zeroed.journal),
    'untouched',
    'the line of the staging directory was not on disk, so the list was not used'
  )

  const lost = await interrupted(t.testdir())
  disk.renameSync(join(lost.target, '.svc-staging-dep_x'), join(lost.target, 'elsewhere'))
  t.equal(recover(lost.journal), 'lost', 'nothing is guessed')
  t.match(snapshot(lost.target).join('\n'), 'app/old 644 new contents')
})

t.test('finds journals by their names', async t => {
  const directory = t.testdir({ 'dep_a.undo': '', 'dep_a.zip': '', 'dep_b.manifest': '' })
  t.strictSame(listJournals(directory), [{ deployId: 'dep_a', path: join(directory, 'dep_a.undo') }])
})

t.test('does not touch, or put back from, a staging directory of another journal', async t => {
  const plants: Array<[what: string, plant: (staging: string, directory: string) => void]> = [
    [
      'a link',
      (staging, directory) => {
        renameSync(staging, `${staging}-away`)
        symlinkSync(join(directory, 'outside'), staging)
      }
    ],
    [
      'a directory without the mark',
      staging => {
        renameSync(staging, `${staging}-away`)
        mkdirSync(join(staging, 'aside'), { recursive: true, mode: 0o700 })
        writeFileSync(join(staging, 'aside/0'), 'planted')
      }
    ],
    ['one that others may enter', staging => chmodSync(staging, 0o755)]
  ]
  for (const [what, plant] of plants) {
    const directory = t.testdir({ outside: { aside: { 0: 'outside' }, files: { late: 'outside' } } })
    const { target, journal } = await interrupted(directory)
    const staging = join(target, '.svc-staging-dep_x')
    mkdirSync(join(staging, 'a-mark'))
    writeFileSync(journal, readFileSync(journal, 'utf8').replace('\nD ', '\nstaging a-mark\nD '))
    plant(staging, directory)
    const before = snapshot(target)
    t.equal(recover(journal), 'lost', what)
    t.strictSame(snapshot(target), before, what)
    t.strictSame(snapshot(join(directory, 'outside')), [
      'aside/ 755',
      'aside/0 644 outside',
      'files/ 755',
      'files/late 644 outside'
    ])
  }
  const { target, journal } = await interrupted(t.testdir())
  mkdirSync(join(target, '.svc-staging-dep_x/a-mark'))
  writeFileSync(journal, readFileSync(journal, 'utf8').replace('\nD ', '\nstaging a-mark\nD '))
  t.equal(recover(journal), 'put back', 'it is recognized by its mark')
  t.notOk(snapshot(target).some(line => line.startsWith('.svc-staging')))
})

t.test('leaves the journal while its path leads to another directory', async t => {
  const { target, journal } = await interrupted(t.testdir())
  const placeOf = (path: string): string => `${statSync(path).dev}:${statSync(path).ino}`
  const place = `at ${placeOf(target)} ${placeOf(join(target, '.svc-staging-dep_x'))}\n`
  const text = readFileSync(journal, 'utf8')
  for (const line of [place, `${place}placed 1 0\n`]) {
    writeFileSync(journal, text + line)
    renameSync(target, `${target}-away`)
    t.equal(recover(journal), 'absent', 'nothing')
    writeFileSync(target, '')
    t.equal(recover(journal), 'absent', 'a file')
    disk.unlinkSync(target)
    mkdirSync(target)
    t.equal(recover(journal), 'absent', 'an empty mount point')
    writeFileSync(join(target, 'NOT-MOUNTED'), '')
    t.equal(recover(journal), 'absent', 'a mount point with a file')
    t.strictSame(snapshot(target), ['NOT-MOUNTED 644 '])
    disk.unlinkSync(join(target, 'NOT-MOUNTED'))
    disk.rmdirSync(target)
    renameSync(`${target}-away`, target)
  }
  const moved = join(target, '.svc-staging-dep_x')
  renameSync(moved, `${target}-staging`)
  t.equal(recover(journal), 'lost', 'the target itself without its staging directory')
  renameSync(`${target}-staging`, moved)
  writeFileSync(journal, text + place)
  t.equal(recover(journal), 'put back')
  t.notOk(snapshot(target).some(line => line.startsWith('.svc-staging')))
})

t.test('does not follow links in the place of directories when a target is put back', async t => {
  const directory = t.testdir({ outside: { old: 'outside', a: 'outside', b: 'outside', deep: { b: 'outside' } } })
  const { target, journal } = await interrupted(directory)
  for (const name of ['app', 'fresh']) {
    renameSync(join(target, name), join(target, `${name}-away`))
    symlinkSync('../outside', join(target, name))
  }
  const before = snapshot(join(directory, 'outside'))
  t.equal(recover(journal), 'put back')
  t.strictSame(snapshot(join(directory, 'outside')), before)
})

t.test('puts back a target whose path contains forged journal lines', async t => {
  for (const name of ['a\nstaging x', 'a\nready 0 0\ndone\n', 'a\r\n b', '100%0A', ' a ']) {
    const { target, journal } = await interrupted(t.testdir(), name)
    t.strictSame(describeJournal(journal), { target, helper: null })
    t.equal(recover(journal), 'put back', JSON.stringify(name))
    t.strictSame(snapshot(target), ['app/ 755', 'app/old 644 old contents', 'late 644 not touched yet'])
  }
})

t.test('reads unencoded paths in a journal of an earlier version', async t => {
  for (const version of [1, 2]) {
    const { target, journal } = await interrupted(t.testdir(), '100%25 and %0A')
    const [, , ...lines] = readFileSync(journal, 'utf8').split('\n').slice(0, -2)
    const sum = [...`${lines.join('\n')}\n`].reduce(
      (sum, letter) => (Math.imul(sum, 31) + letter.charCodeAt(0)) >>> 0,
      0
    )
    writeFileSync(
      journal,
      `svc-undo ${version}\ntarget ${target}\n${lines.join('\n')}\nready ${lines.length} ${sum.toString(16)}\n`
    )
    t.strictSame(describeJournal(journal), { target, helper: null })
    t.equal(recover(journal), 'put back', `version ${version}`)
    t.strictSame(snapshot(target), ['app/ 755', 'app/old 644 old contents', 'late 644 not touched yet'])
  }
})

t.test('reads a journal of version 3', async t => {
  const { target, journal } = await interrupted(t.testdir(), 'with a %')
  writeFileSync(journal, readFileSync(journal, 'utf8').replace(/^svc-undo \d+/, 'svc-undo 3'))
  t.equal(recover(journal), 'put back')
  t.strictSame(snapshot(target), ['app/ 755', 'app/old 644 old contents', 'late 644 not touched yet'])
})

t.test('keeps entries that are created while staging is removed, even if that is interrupted', async t => {
  for (const failing of ['rmdirSync', 'unlinkSync', 'renameSync'] as const) {
    const { target, journal } = await interrupted(t.testdir())
    let isUndone = false
    const call = (...args: [string, string]): void => {
      ;(disk[failing] as (...args: string[]) => void)(...args)
      isUndone ||=
        failing === 'renameSync' ? args[1].endsWith('/undone') : existsSync(join(target, '.svc-staging-dep_x/undone'))
      if (isUndone) throw Object.assign(new Error('EIO: test'), { code: 'EIO' })
    }
    t.throws(() => recoverFile({ ...disk, [failing]: call }, journalAt(disk, journal)), { code: 'EIO' }, failing)
    mkdirSync(join(target, 'fresh'))
    for (const path of ['new', 'app/old', 'fresh/a']) writeFileSync(join(target, path), 'theirs')
    t.equal(recover(journal), 'put back')
    t.strictSame(
      snapshot(target),
      [
        'app/ 755',
        'app/old 644 theirs',
        'fresh/ 755',
        'fresh/a 644 theirs',
        'late 644 not touched yet',
        'new 644 theirs'
      ],
      failing
    )
  }
})

t.test('notes the process of a journal, privately, and until the journal is removed', async t => {
  const directory = t.testdir({})
  const journal = join(directory, 'dep_a.undo')
  const owner = { user: 'app', uid: 33, pid: 7, startedAt: '123', bootId: 'b', target: '/srv/a\nb' }
  t.equal(readOwner(journal), null)
  writeFileSync(journal, '')
  writeOwner(disk, journal, owner)
  t.strictSame(readOwner(journal), owner)
  t.equal(statSync(ownerPathOf(journal)).mode & 0o777, 0o600)
  removeJournalFiles(journal)
  t.strictSame(readdirSync(directory), [])
  removeJournalFiles(journal)
})

t.test('a file that is not whole is an error, never a journal of svc itself', async t => {
  const journal = join(t.testdir({}), 'dep_a.undo')
  for (const text of ['', '{', '{}', '{"user":"app","uid":-1,"pid":1,"startedAt":"1","bootId":"","target":"/"}']) {
    writeFileSync(ownerPathOf(journal), text)
    t.throws(() => readOwner(journal), text)
  }
})

t.test('removes only what has no journal', async t => {
  const directory = t.testdir({
    'dep_a.undo': '',
    'dep_a.helper': '',
    'dep_b.helper': '',
    'dep_c.helper.tmp': '',
    'dep_b.zip': ''
  })
  removeLeftOwners(directory)
  t.strictSame(readdirSync(directory).sort(), ['dep_a.helper', 'dep_a.undo', 'dep_b.zip'])
})
