import t from 'tap'
import { appendFile, readFile, rename, rm, symlink } from 'node:fs/promises'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { openOutput } from '../../lib/deploy/output.js'
import { setClock } from '../support/clock.js'

const clock = setClock()
const at = '2030-01-01T00:00:00.000Z'

t.test('sentences and lines are kept with their times, in order', async t => {
  const path = join(t.testdir({}), 'dep.log')
  const clock = setClock()
  let writes = 0
  const output = await openOutput({ path, clock, onWritten: () => writes++ })
  output.say('one')
  clock.advance(1500)
  output.line('two')
  output.say('three\r\nfour') // a sentence is one line: a name in it forges none
  await output.flush()
  const later = '2030-01-01T00:00:01.500Z'
  t.equal(await readFile(path, 'utf8'), `${at} one\n${later} two\n${later} three\\r\\nfour\n`)
  t.equal(writes, 1, 'lines of one moment share a write')
})

t.test('an output is continued, and a line that a crash tore is cut off', async t => {
  const path = join(t.testdir({ 'dep.log': `${at} one\n${at} tw` }), 'dep.log')
  const output = await openOutput({ path, clock })
  output.say('three')
  await output.flush()
  t.equal(await readFile(path, 'utf8'), `${at} one\n${at} three\n`)
})

t.test('a script that prints faster than the disk has to wait', async t => {
  const path = join(t.testdir({}), 'dep.log')
  const output = await openOutput({ path, clock })
  const line = 'x'.repeat(1000)
  let waits = 0
  for (let count = 0; count < 20_000; count++) {
    const wait = output.line(line)
    if (wait) {
      waits++
      await wait
    }
  }
  await output.flush()
  t.ok(waits > 5, `${waits} waits`)
  t.equal((await readFile(path)).length, 20_000 * (1000 + 26))
})

t.test('a script that prints in circles is cut short, and said so once', async t => {
  const path = join(t.testdir({}), 'dep.log')
  const output = await openOutput({ path, clock, maxScriptBytes: 2 * (26 + 5) })
  for (const text of ['12345', '67890', 'more', 'and more']) output.line(text)
  output.say('the end')
  await output.flush()
  const lines = (await readFile(path, 'utf8')).split('\n').map(line => line.slice(25))
  t.strictSame(lines, ['12345', '67890', '→ more than 62 B of output: the rest is not kept (setting max_output_size)', 'the end', ''])
})

t.test('empty lines, and characters of several bytes, count as what they take', async t => {
  for (const text of ['', '€'.repeat(100)]) {
    const path = join(t.testdir({}), 'dep.log')
    const output = await openOutput({ path, clock, maxScriptBytes: 100_000 })
    for (let count = 0; count < 10_000; count++) await output.line(text)
    await output.flush()
    const { length } = await readFile(path)
    t.ok(length > 90_000 && length < 100_200, `${length} bytes`)
  }
})

t.test('a failed write shows in flush and stops the script', async t => {
  const path = join(t.testdir({}), 'dep.log')
  const output = await openOutput({ path, clock })
  await rm(path)
  output.say('nobody keeps this')
  await t.rejects(output.flush(), { code: 'ENOENT' })
  t.throws(() => output.line('nor this'), { code: 'ENOENT' })
  t.notOk(existsSync(path), 'a removed output stays removed')
})

t.test('after a failed write later lines are kept if they can be', async t => {
  const path = join(t.testdir({}), 'dep.log')
  const output = await openOutput({ path, clock })
  await rm(path)
  output.say('lost')
  await output.flush().catch(() => {})
  await appendFile(path, '')
  output.say('kept')
  await output.flush().catch(() => {})
  t.equal(await readFile(path, 'utf8'), `${at} kept\n`)
})

/** Exchanges the file for one that has no room; gives the way back. */
async function fill(path: string): Promise<() => Promise<void>> {
  await rename(path, `${path}.kept`)
  await symlink('/dev/full', path)
  return () => rename(`${path}.kept`, path)
}

const needsFull = { skip: !existsSync('/dev/full') && 'there is no /dev/full' }

t.test('where the deployment has to go on, lines that cannot be written are counted in their place, sentences kept', needsFull, async t => {
  const path = join(t.testdir({}), 'dep.log')
  const output = await openOutput({ path, clock })
  output.goOn()
  output.say('one')
  await output.flush()
  const hasRoom = await fill(path)
  output.say('two')
  for (const text of ['lost', 'lost, too']) output.line(text)
  await output.flush()
  t.match(output.unwritten, { code: 'ENOSPC' })
  output.line('and this')
  output.say('three')
  output.line('and that')
  await output.flush()
  await hasRoom()
  output.line('four')
  await output.flush()
  t.equal(output.unwritten, null)
  const lines = (await readFile(path, 'utf8')).split('\n').map(line => line.slice(25).replace(/ \(ENOSPC.*$/, ''))
  t.strictSame(lines, [
    'one', 'two', '→ missing here: 3 lines (99 B) of output that could not be written', 'three',
    '→ missing here: 1 line (34 B) of output that could not be written', 'four', ''
  ])
})

t.test('else a lost line stops the script, and what svc itself said is written when it can be', needsFull, async t => {
  const path = join(t.testdir({}), 'dep.log')
  const output = await openOutput({ path, clock })
  const hasRoom = await fill(path)
  output.line('lost')
  await t.rejects(output.flush(), { code: 'ENOSPC' })
  t.throws(() => output.line('no more'), { code: 'ENOSPC' })
  output.say('the end')
  await hasRoom()
  await t.rejects(output.flush(), { code: 'ENOSPC' }, 'the step has failed all the same')
  t.equal(output.unwritten, null)
  t.match(await readFile(path, 'utf8'), /missing here: 1 line .*\n.*the end\n$/)
})

t.test('what is written can be brought to the disk', async t => {
  const path = join(t.testdir({}), 'dep.log')
  const output = await openOutput({ path, clock })
  output.say('one')
  await output.flush()
  await output.sync()
  await rm(path)
  await t.rejects(output.sync(), { code: 'ENOENT' })
})
