import t from 'tap'
import { closeSync, existsSync, openSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { disk } from '../../lib/install/disk.js'
import {
  decodePath,
  deployIdOf,
  encodePath,
  journalAt,
  journalHead,
  notedHelper,
  openedJournal
} from '../../lib/install/journal-file.js'
import { beginJournal } from '../../lib/install/journal.js'
import { writeOwner } from '../../lib/install/journal-owner.js'
import { describeJournal, recover } from '../../lib/install/undo.js'

t.test('reads the same journal by its path and as an open file', async t => {
  const directory = t.testdir({ target: { other: '' } })
  const target = join(directory, 'target')
  const fill = async (file: Parameters<typeof beginJournal>[0]): Promise<void> => {
    const journal = await beginJournal(file, target)
    journal.staged('mark')
    await journal.ready([{ kind: 'N', path: 'a\u00e9' }])
  }
  const named = journalAt(disk, join(directory, 'dep_a.undo'))
  await fill(named)
  const helper = { user: 'app', uid: 33, pid: 7, startedAt: '123', bootId: 'b', target }
  const path = join(directory, 'dep_b.undo')
  writeFileSync(path, journalHead)
  writeOwner(disk, path, helper)
  const fd = openSync(path, 'a+')
  t.teardown(() => closeSync(fd))
  const opened = openedJournal(disk, fd, 'dep_b')
  await fill(opened)
  t.strictSame([named.deployId, opened.deployId], ['dep_a', 'dep_b'])
  t.equal(opened.read().text, named.read().text)
  t.equal(opened.read().user, process.geteuid?.())
  t.equal(statSync(join(directory, 'dep_a.undo')).mode & 0o777, 0o600)
  t.strictSame(describeJournal(path), { target, helper })
  t.strictSame(describeJournal(join(directory, 'dep_a.undo')), { target, helper: null })
  t.equal(describeJournal(join(directory, 'gone.undo')), null)

  // Their staging directories do not exist.
  t.equal(recover(disk, opened), 'lost')
  t.equal(readFileSync(path, 'utf8'), '', 'an open journal is emptied, not removed')
  t.equal(recover(disk, named), 'lost')
  t.notOk(existsSync(join(directory, 'dep_a.undo')))
})

t.test('an empty target keeps its journal, because its disk may not be mounted', async t => {
  const directory = t.testdir({ target: {} })
  const file = journalAt(disk, join(directory, 'dep_a.undo'))
  const journal = await beginJournal(file, join(directory, 'target'))
  journal.staged('mark')
  await journal.ready([{ kind: 'N', path: 'a' }])
  t.equal(recover(disk, file), 'absent')
  t.ok(existsSync(join(directory, 'dep_a.undo')))
})

t.test('reads the line of a helper process of an earlier version', async t => {
  t.equal(deployIdOf('/data/deployments/dep_x.undo'), 'dep_x')
  t.strictSame(notedHelper('svc-undo 4\nhelper www-data 12 345\ntarget /srv\n'), {
    user: 'www-data',
    pid: 12,
    startedAt: '345'
  })
  for (const text of [
    '',
    'svc-undo 2\n',
    'svc-undo 2\ntarget /helper a 1 2\n',
    'svc-undo 2\nhelper a 1',
    'svc-undo 2\nhelper a x 2\n'
  ]) {
    t.equal(notedHelper(text), null, JSON.stringify(text))
  }
})

t.test('writes each path on one line, and reads it back unchanged', async t => {
  const paths = ['a', 'a b', '100%', '%0A', 'a\nready 0 0\ndone\n', '\r\t\u0000\u001f\u007f', 'ü/\u2028/日本', '']
  t.strictSame(paths.map(encodePath).map(decodePath), paths)
  t.notMatch(paths.map(encodePath).join(''), /[\n\r\u0000]/)
})
