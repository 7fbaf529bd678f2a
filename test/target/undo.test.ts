import t from 'tap'
import {
  appendFileSync, chmodSync, mkdirSync, readFileSync, renameSync, statSync, symlinkSync, utimesSync, writeFileSync
} from 'node:fs'
import { join } from 'node:path'
import { disk } from '../../lib/target/disk.js'
import { journalAt } from '../../lib/target/journal-file.js'
import { beginJournal, describeJournal, listJournals, recover as recoverFile } from '../../lib/target/undo.js'
import { snapshot } from '../support/tree.js'

const recover = (path: string) => recoverFile(disk, journalAt(disk, path))

/** A target in the middle of a commit: `app/old` replaced, `new` moved, `fresh` moved, `late` not yet. */
function interrupted(directory: string, name = 'target'): { target: string; journal: string } {
  const target = join(directory, name)
  const staging = join(target, '.svc-staging-dep_x')
  mkdirSync(staging, { mode: 0o700, recursive: true })
  mkdirSync(join(staging, 'files/app'), { recursive: true })
  mkdirSync(join(staging, 'aside'))
  mkdirSync(join(target, 'app'))
  mkdirSync(join(target, 'fresh/deep'), { recursive: true })
  const files = {
    'app/old': 'new contents', 'new': 'new', 'late': 'not touched yet', 'fresh/a': 'a', 'fresh/deep/b': 'b',
    '.svc-staging-dep_x/aside/0': 'old contents', '.svc-staging-dep_x/files/late': 'late'
  }
  for (const [path, contents] of Object.entries(files)) writeFileSync(join(target, path), contents)
  const path = join(directory, 'dep_x.undo')
  const journal = beginJournal(journalAt(disk, path), target)
  journal.ready([
    { kind: 'D', path: 'fresh' }, { kind: 'd', path: 'fresh/deep' }, { kind: 'n', path: 'fresh/a' },
    { kind: 'n', path: 'fresh/deep/b' }, { kind: 'N', path: 'new' }, { kind: 'R', path: 'app/old', aside: 0 },
    { kind: 'R', path: 'late', aside: 1 }
  ])
  return { target, journal: path }
}

t.test('what was done is undone, what was not is left', async t => {
  const { target, journal } = interrupted(t.testdir())
  t.strictSame(describeJournal(journal), { target, helper: null })
  t.equal(recover(journal), 'put back')
  t.strictSame(snapshot(target), ['app/ 755', 'app/old 644 old contents', 'late 644 not touched yet'])
})

t.test('a time is put back where it was set, and the file was not changed since', async t => {
  const directory = t.testdir({ target: { set: 'a', 'not set': 'b', 'changed since': 'c', folder: { 'with space': 'd' } } })
  const target = join(directory, 'target')
  const times = { set: 2000, 'not set': 1000, 'changed since': 9000, 'folder/with space': 2000 }
  for (const [path, ms] of Object.entries(times)) utimesSync(join(target, path), ms / 1000, ms / 1000)
  const path = join(directory, 'dep_x.undo')
  const journal = beginJournal(journalAt(disk, path), target)
  mkdirSync(join(target, '.svc-staging-dep_x'), 0o700)
  mkdirSync(join(target, '.svc-staging-dep_x/files'))
  journal.ready([...Object.keys(times), 'gone'].map(path => ({ kind: 'T', path, fromMs: 1000, toMs: 2000 })))
  t.equal(recover(path), 'put back')
  t.strictSame(Object.keys(times).map(path => statSync(join(target, path)).mtimeMs), [1000, 1000, 9000, 1000])
})

t.test('what somebody else put into a new directory stays', async t => {
  const { target, journal } = interrupted(t.testdir())
  writeFileSync(join(target, 'fresh/deep/upload'), 'a visitor')
  recover(journal)
  t.match(snapshot(target).join('\n'), 'fresh/ 755\nfresh/deep/ 755\nfresh/deep/upload 644 a visitor')
})

t.test('a journal that is done, torn at every byte, or without its staging directory', async t => {
  const done = interrupted(t.testdir())
  appendFileSync(done.journal, 'done\n')
  t.equal(recover(done.journal), 'complete')
  t.match(snapshot(done.target).join('\n'), 'app/old 644 new contents')

  const whole = readFileSync(interrupted(t.testdir()).journal)
  for (let length = 0; length < whole.length; length++) {
    const { target, journal } = interrupted(t.testdir())
    writeFileSync(journal, whole.subarray(0, length))
    const outcome = recover(journal)
    if (outcome !== 'untouched') t.equal(outcome, 'untouched', `${length} bytes`)
    if (!snapshot(target).includes('new 644 new')) t.fail(`${length} bytes: something was undone`)
  }
  const zeroed = interrupted(t.testdir())
  writeFileSync(zeroed.journal, readFileSync(zeroed.journal, 'utf8').replace('\nD ', `\n${'\0'.repeat(41)}D `))
  t.equal(recover(zeroed.journal), 'untouched', 'the line of the staging directory was not on the disk, so the list was not used')

  const lost = interrupted(t.testdir())
  disk.renameSync(join(lost.target, '.svc-staging-dep_x'), join(lost.target, 'elsewhere'))
  t.equal(recover(lost.journal), 'lost', 'nothing is guessed')
  t.match(snapshot(lost.target).join('\n'), 'app/old 644 new contents')
})

t.test('journals are found by their name', async t => {
  const directory = t.testdir({ 'dep_a.undo': '', 'dep_a.zip': '', 'dep_b.manifest': '' })
  t.strictSame(listJournals(directory), [{ deployId: 'dep_a', path: join(directory, 'dep_a.undo') }])
})

t.test('a staging directory that is not the journal\'s is not touched, and nothing is put back from it', async t => {
  const plants: Array<[what: string, plant: (staging: string, directory: string) => void]> = [
    ['a link', (staging, directory) => {
      renameSync(staging, `${staging}-away`)
      symlinkSync(join(directory, 'outside'), staging)
    }],
    ['one without the mark', staging => {
      renameSync(staging, `${staging}-away`)
      mkdirSync(join(staging, 'aside'), { recursive: true, mode: 0o700 })
      writeFileSync(join(staging, 'aside/0'), 'planted')
    }],
    ['one that others may enter', staging => chmodSync(staging, 0o755)]
  ]
  for (const [what, plant] of plants) {
    const directory = t.testdir({ outside: { aside: { 0: 'outside' }, files: { late: 'outside' } } })
    const { target, journal } = interrupted(directory)
    const staging = join(target, '.svc-staging-dep_x')
    mkdirSync(join(staging, 'a-mark'))
    writeFileSync(journal, readFileSync(journal, 'utf8').replace('\nD ', '\nstaging a-mark\nD '))
    plant(staging, directory)
    const before = snapshot(target)
    t.equal(recover(journal), 'lost', what)
    t.strictSame(snapshot(target), before, what)
    t.strictSame(snapshot(join(directory, 'outside')), ['aside/ 755', 'aside/0 644 outside', 'files/ 755', 'files/late 644 outside'])
  }
  const { target, journal } = interrupted(t.testdir())
  mkdirSync(join(target, '.svc-staging-dep_x/a-mark'))
  writeFileSync(journal, readFileSync(journal, 'utf8').replace('\nD ', '\nstaging a-mark\nD '))
  t.equal(recover(journal), 'put back', 'with the mark it is known')
  t.notOk(snapshot(target).some(line => line.startsWith('.svc-staging')))
})

t.test('links in the place of directories are not followed when a target is put back', async t => {
  const directory = t.testdir({ outside: { old: 'outside', a: 'outside', b: 'outside', deep: { b: 'outside' } } })
  const { target, journal } = interrupted(directory)
  for (const name of ['app', 'fresh']) {
    renameSync(join(target, name), join(target, `${name}-away`))
    symlinkSync('../outside', join(target, name))
  }
  const before = snapshot(join(directory, 'outside'))
  t.equal(recover(journal), 'put back')
  t.strictSame(snapshot(join(directory, 'outside')), before)
})

t.test('a target whose path forges lines of a journal is put back, too', async t => {
  for (const name of ['a\nstaging x', 'a\nready 0 0\ndone\n', 'a\r\n b', '100%0A', ' a ']) {
    const { target, journal } = interrupted(t.testdir(), name)
    t.strictSame(describeJournal(journal), { target, helper: null })
    t.equal(recover(journal), 'put back', JSON.stringify(name))
    t.strictSame(snapshot(target), ['app/ 755', 'app/old 644 old contents', 'late 644 not touched yet'])
  }
})

t.test('a journal of an earlier version has its paths as they are', async t => {
  for (const version of [1, 2]) {
    const { target, journal } = interrupted(t.testdir(), '100%25 and %0A')
    const [, , ...lines] = readFileSync(journal, 'utf8').split('\n').slice(0, -2)
    const sum = [...`${lines.join('\n')}\n`].reduce((sum, letter) => (Math.imul(sum, 31) + letter.charCodeAt(0)) >>> 0, 0)
    writeFileSync(journal, `svc-undo ${version}\ntarget ${target}\n${lines.join('\n')}\nready ${lines.length} ${sum.toString(16)}\n`)
    t.strictSame(describeJournal(journal), { target, helper: null })
    t.equal(recover(journal), 'put back', `version ${version}`)
    t.strictSame(snapshot(target), ['app/ 755', 'app/old 644 old contents', 'late 644 not touched yet'])
  }
})
