import { readdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { disk } from '../../lib/install/disk.js'
import { ownerPathOf, readOwner, writeOwner } from '../../lib/install/journal-owner.js'
import { removeJournalFiles, removeLeftOwners } from '../../lib/install/undo.js'

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
