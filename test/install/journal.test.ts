import { appendFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { disk } from '../../lib/install/disk.js'
import { journalAt } from '../../lib/install/journal-file.js'
import { beginJournal, readJournal } from '../../lib/install/journal.js'

async function journalIn(directory: string) {
  const path = join(directory, 'dep_a.undo')
  const file = journalAt(disk, path)
  const journal = await beginJournal(file, '/srv/shop')
  journal.staged('mark')
  return { path, file, journal, read: () => readJournal(file) }
}

t.test('reads each state of a journal', async t => {
  const { journal, file, read } = await journalIn(t.testdir())
  t.match(read(), { state: 'begun', target: '/srv/shop', mark: 'mark', placedAtMs: null })
  await journal.ready([{ kind: 'N', path: 'a b' }])
  t.match(read(), { state: 'ready', lines: [{ kind: 'N', path: 'a b' }], placedAtMs: null })
  const beforeMs = Date.now()
  await journal.placed()
  const { placedAtMs, state } = read() ?? {}
  t.equal(state, 'placed')
  t.ok(Number(placedAtMs) >= beforeMs && Number(placedAtMs) <= Date.now())
  file.append(['reverting\n'])
  t.equal(read()?.state, 'reverting')
  file.append(['undone\n'])
  t.match(read(), { state: 'undone', placedAtMs })
})

t.test('reads a settled journal as done', async t => {
  const { journal, read } = await journalIn(t.testdir())
  await journal.ready([])
  await journal.placed()
  await journal.done()
  t.equal(read()?.state, 'done')
})

t.test('a torn or foreign line "placed" leaves the journal ready', async t => {
  const { journal, path, read } = await journalIn(t.testdir())
  await journal.ready([{ kind: 'N', path: 'a' }])
  const ready = readFileSync(path)
  await journal.placed()
  const whole = readFileSync(path)
  for (let end = ready.length; end < whole.length; end++) {
    writeFileSync(path, whole.subarray(0, end))
    t.equal(read()?.state, 'ready', `${whole.length - end} bytes are missing`)
  }
  writeFileSync(path, ready)
  appendFileSync(path, 'placed 1700000000000 abcdef\n')
  t.equal(read()?.state, 'ready', 'a wrong sum')
  // The newline in front of a later line ends the torn one.
  writeFileSync(path, Buffer.concat([whole.subarray(0, whole.length - 1), Buffer.from('\ndone\n')]))
  t.equal(read()?.state, 'done')
})

t.test('returns null without a complete head', async t => {
  const { path, read } = await journalIn(t.testdir())
  for (const text of ['', 'svc-undo 4', 'svc-undo 4\n', 'svc-undo 4\ntarget /a', 'svc-undo 5\ntarget /a\n']) {
    writeFileSync(path, text)
    t.equal(read(), null, JSON.stringify(text))
  }
})
