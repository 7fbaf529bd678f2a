import t from 'tap'
import {
  appendFileSync,
  closeSync,
  existsSync,
  openSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync
} from 'node:fs'
import { join } from 'node:path'
import { disk } from '../../../lib/core/install/disk.js'
import {
  beginJournal,
  decodePath,
  deployIdOf,
  encodePath,
  formatLine,
  journalAt,
  journalHead,
  type JournalLine,
  notedHelper,
  openedJournal,
  parseLine,
  readJournal
} from '../../../lib/core/install/journal.js'
import { describeJournal, recover, writeOwner } from '../../../lib/core/install/undo.js'

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

t.test('a journal whose head cannot be written is not left', async t => {
  const directory = t.testdir()
  for (const call of ['writeSync', 'fdatasync', 'fsync'] as const) {
    const fail = (...args: unknown[]): void => {
      const error = Object.assign(new Error('full'), { code: 'ENOSPC' })
      if (call === 'writeSync') throw error
      ;(args.at(-1) as (error: Error) => void)(error)
    }
    const file = journalAt({ ...disk, [call]: fail }, join(directory, 'dep_a.undo'))
    await t.rejects(beginJournal(file, '/srv/shop'), { code: 'ENOSPC' }, call)
    t.same(readdirSync(directory), [], call)
  }
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

const lines: Array<[JournalLine, string]> = [
  [{ kind: 'D', path: 'a b' }, 'D a b'],
  [{ kind: 'd', path: 'a/b' }, 'd a/b'],
  [{ kind: 'n', path: 'a/%' }, 'n a/%25'],
  [{ kind: 'N', path: 'a\nready' }, 'N a%0Aready'],
  [{ kind: 'R', path: 'a b', aside: 12 }, 'R 12 a b'],
  [{ kind: 'T', path: 'a b', fromMs: 1.5, toMs: 2000 }, 'T 1.5 2000 a b'],
  [{ kind: 'X', path: 'a b', aside: 7 }, 'X 7 a b'],
  [{ kind: 'x', path: 'a b', mode: 0o2755 }, 'x 2755 a b']
]

t.test('writes a line and reads it back', async t => {
  for (const [line, text] of lines) {
    t.equal(formatLine(line), `${text}\n`)
    t.strictSame(parseLine(text, decodePath), line)
  }
})

t.test('reads unencoded paths of older versions', async t => {
  t.strictSame(
    parseLine('n a%25', path => path),
    { kind: 'n', path: 'a%25' }
  )
})
