import t from 'tap'
import { appendFile, readFile, rename, rm, symlink } from 'node:fs/promises'
import { spawnSync } from 'node:child_process'
import { existsSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import { continueOutput, createRecentOutput, openOutput } from '../../../lib/deploy/output/output.js'
import { setClock } from '../../support/clock.js'
import { deploySays } from '../../support/sentences/deploy.js'
import { matching } from '../../support/sentences/matching.js'
import { createRandom } from '../../support/random.js'

const clock = setClock()
const at = '2030-01-01T00:00:00.000Z'

t.test('writes sentences and lines with their times, in order', async t => {
  const path = join(t.testdir({}), 'dep.log')
  const clock = setClock()
  let writes = 0
  const output = await openOutput({ path, clock, onWritten: () => writes++ })
  output.say('one')
  clock.advance(1500)
  output.line('two')
  output.say('three\r\nfour') // a sentence is one line, so a name in it cannot forge another
  await output.flush()
  const later = '2030-01-01T00:00:01.500Z'
  t.equal(await readFile(path, 'utf8'), `${at} one\n${later} two\n${later} three\\r\\nfour\n`)
  t.equal(writes, 1, 'simultaneous lines share a write')
})

t.test('continues an output after removing an incomplete last line', async t => {
  const path = join(t.testdir({ 'dep.log': `${at} one\n${at} tw` }), 'dep.log')
  const output = await openOutput({ path, clock })
  output.say('three')
  await output.flush()
  t.equal(await readFile(path, 'utf8'), `${at} one\n${at} three\n`)
})

t.test('says that the earlier lines are lost, and writes into no pipe', async t => {
  const home = t.testdir({ 'there.log': `${at} one\n` })
  for (const [name, before] of [
    ['there.log', 'one'],
    ['lost.log', deploySays.outputLostBefore]
  ] as const) {
    const path = join(home, name)
    const output = await continueOutput({ path, clock })
    output.say('two')
    await output.flush()
    t.equal(await readFile(path, 'utf8'), `${at} ${before}\n${at} two\n`)
  }
  const pipe = join(home, 'pipe.log')
  if (spawnSync('mkfifo', [pipe]).status === 0)
    await t.rejects(continueOutput({ path: pipe, clock }), { message: `"${pipe}" is not a file` })
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

t.test('discards output over the limit and says so once', async t => {
  const path = join(t.testdir({}), 'dep.log')
  const output = await openOutput({ path, clock, maxScriptBytes: 2 * (26 + 5) })
  for (const text of ['12345', '67890', 'more', 'and more']) output.line(text)
  output.say('the end')
  await output.flush()
  const lines = (await readFile(path, 'utf8')).split('\n').map(line => line.slice(25))
  t.strictSame(lines, ['12345', '67890', deploySays.outputCut('62 B'), 'the end', ''])
})

t.test('counts empty lines and multibyte characters by their stored size', async t => {
  for (const text of ['', '€'.repeat(100)]) {
    const path = join(t.testdir({}), 'dep.log')
    const output = await openOutput({ path, clock, maxScriptBytes: 100_000 })
    for (let count = 0; count < 10_000; count++) await output.line(text)
    await output.flush()
    const { length } = await readFile(path)
    t.ok(length > 90_000 && length < 100_200, `${length} bytes`)
  }
})

t.test('a failed write fails the flush and stops the script', async t => {
  const path = join(t.testdir({}), 'dep.log')
  const output = await openOutput({ path, clock })
  await rm(path)
  output.say('nobody keeps this')
  await t.rejects(output.flush(), { code: 'ENOENT' })
  t.throws(() => output.line('nor this'), { code: 'ENOENT' })
  t.notOk(existsSync(path), 'a removed output is not created again')
})

t.test('writes later lines after a failed write', async t => {
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

/** Replaces the file by one without space. Returns a function that restores it. */
async function fill(path: string): Promise<() => Promise<void>> {
  await rename(path, `${path}.kept`)
  await symlink('/dev/full', path)
  return () => rename(`${path}.kept`, path)
}

const needsFull = { skip: !existsSync('/dev/full') && 'there is no /dev/full' }

t.test('after tolerateFailures, counts script lines that cannot be written and keeps sentences', needsFull, async t => {
  const path = join(t.testdir({}), 'dep.log')
  const output = await openOutput({ path, clock })
  output.tolerateFailures()
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
    'one',
    'two',
    deploySays.outputMissing('3 lines (99 B)'),
    'three',
    deploySays.outputMissing('1 line (34 B)'),
    'four',
    ''
  ])
})

t.test(
  'without tolerateFailures, a lost line stops the script, and sentences are written later',
  needsFull,
  async t => {
    const path = join(t.testdir({}), 'dep.log')
    const output = await openOutput({ path, clock })
    const hasRoom = await fill(path)
    output.line('lost')
    await t.rejects(output.flush(), { code: 'ENOSPC' })
    t.throws(() => output.line('no more'), { code: 'ENOSPC' })
    output.say('the end')
    await hasRoom()
    await t.rejects(output.flush(), { code: 'ENOSPC' }, 'the step has failed anyway')
    t.equal(output.unwritten, null)
    t.match(await readFile(path, 'utf8'), matching(deploySays.outputMissing('1 line (30 B)'), /.*\n.*the end\n$/))
  }
)

t.test('a flush tries again after a write that began before it and failed', needsFull, async t => {
  const path = join(t.testdir({}), 'dep.log')
  let now = (): number => clock.now()
  const output = await openOutput({ path, clock: { now: () => now() } })
  await fill(path)
  output.tolerateFailures()
  output.say('one')
  // The output asks for the time when the write has failed, before it keeps the line.
  const flushed = new Promise<void>((resolve, reject) => {
    now = () => {
      now = () => clock.now()
      renameSync(`${path}.kept`, path)
      output.flush().then(resolve, reject)
      return clock.now()
    }
  })
  await flushed
  t.equal(output.unwritten, null)
  t.equal(await readFile(path, 'utf8'), `${at} one\n`)
})

t.test('syncs the file', async t => {
  const path = join(t.testdir({}), 'dep.log')
  const output = await openOutput({ path, clock })
  output.say('one')
  await output.flush()
  await output.sync()
  await rm(path)
  await t.rejects(output.sync(), { code: 'ENOENT' })
})

t.test('returns the lines from any kept offset to the end of its block', async t => {
  const random = createRandom(7)
  const recent = createRecentOutput(1000)
  t.equal(recent.at(1000), null)
  let all: Buffer = Buffer.alloc(0)
  for (let round = 0; round < 200; round++) {
    const lines = random.some(40, () => `${'x'.repeat(random.below(random.below(30) === 0 ? 100_000 : 200))}\n`)
    const bytes = Buffer.from(lines.join(''))
    recent.add(bytes)
    all = Buffer.concat([all, bytes])
    t.equal(recent.end, 1000 + all.length)
  }
  let offset = recent.end
  while (recent.at(offset - 1) !== null) offset--
  const kept = recent.end - offset
  t.ok(kept > 64 * 1024 && kept <= 256 * 1024, `${kept} bytes are kept`)
  for (let at = offset; at < recent.end; ) {
    const block = recent.at(at)
    if (block === null) throw new Error(`nothing at ${at}`)
    const { bytes } = block
    if (!bytes.equals(all.subarray(at - 1000, at - 1000 + bytes.length))) t.fail(`other bytes at ${at}`)
    if (bytes.at(-1) !== 10) t.fail(`the block at ${at} ends within a line`)
    if (bytes.length > 64 * 1024 && bytes.indexOf(10) !== bytes.length - 1) t.fail(`the block at ${at} is too large`)
    if (recent.at(at) !== block) t.fail(`two followers at ${at} do not share`)
    at += bytes.length
  }
  t.equal(recent.at(recent.end), null)
  t.equal(recent.at(0), null)
})
