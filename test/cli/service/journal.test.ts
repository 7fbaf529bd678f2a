import { closeSync, fstatSync, openSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { printsToJournal } from '../../../lib/cli/service/journal.js'

t.test('recognizes the journal by JOURNAL_STREAM', async t => {
  const file = openSync(join(t.testdir(), 'journal'), 'w')
  t.teardown(() => closeSync(file))
  const { dev, ino } = fstatSync(file)
  t.equal(printsToJournal({ JOURNAL_STREAM: `${dev}:${ino}` }, file), true)
  t.equal(printsToJournal({ JOURNAL_STREAM: `${dev}:${ino + 1}` }, file), false, 'redirected elsewhere')
  t.equal(printsToJournal({}, file), false)
})
