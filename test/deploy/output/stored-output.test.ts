import t, { type Test } from 'tap'
import { writeFile } from 'node:fs/promises'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import {
  checkedOffset,
  linesOf,
  readBlock,
  readTail,
  readText,
  readWindow,
  storedLine,
  type StoredLine
} from '../../../lib/deploy/output/stored-output.js'
import { deploySays } from '../../support/sentences/deploy.js'

const at = '2030-01-01T00:00:00.000Z'
const stored = (lines: string[]): string => lines.map(text => storedLine(at, text)).join('')

async function gather<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = []
  for await (const item of items) all.push(item)
  return all
}

async function linesFrom(path: string, from = 0): Promise<StoredLine[]> {
  const lines: StoredLine[] = []
  let block = await readBlock(path, await checkedOffset(path, from), Infinity)
  while (block !== null) {
    lines.push(...linesOf(block))
    block = await readBlock(path, block.offset + block.bytes.length, Infinity)
  }
  return lines
}

async function fileOf(t: Test, text: string | Buffer): Promise<string> {
  const path = join(t.testdir({}), 'dep.log')
  await writeFile(path, text)
  return path
}

t.test('returns lines with their time and the offset after them', async t => {
  const lines = ['first', '', 'ümläut 🙂', 'x'.repeat(200_000), 'last']
  const path = await fileOf(t, stored(lines))
  const read = await linesFrom(path)
  t.strictSame(
    read.map(({ line }) => line.text),
    lines
  )
  t.ok(read.every(({ line }) => line.at === at))
  for (const [index, { nextOffset }] of read.entries()) {
    const rest = await linesFrom(path, nextOffset)
    t.strictSame(
      rest.map(({ line }) => line.text),
      lines.slice(index + 1),
      `resumed after line ${index}`
    )
  }
})

t.test('an offset within a line restarts from the beginning', async t => {
  const path = await fileOf(t, stored(['a', 'b']))
  for (const from of [1, 26, 1e9, -1, 0.5, NaN, Infinity]) {
    t.strictSame(
      (await linesFrom(path, from)).map(({ line }) => line.text),
      ['a', 'b'],
      String(from)
    )
  }
})

t.test('does not return a line that is still being written', async t => {
  const path = await fileOf(t, `${stored(['a'])}2030-01-01T00:00:0`)
  t.strictSame(
    (await linesFrom(path)).map(({ line }) => line.text),
    ['a']
  )
  t.strictSame(await readTail(path, { maxBytes: 100 }), { text: 'a\n', truncated: false, lost: false })
  t.equal(Buffer.concat(await gather(readText(path))).toString(), 'a\n')
})

t.test('a file that is lost is one line that says so, for every reader', async t => {
  const home = t.testdir({ deployments: { 'dir.log': {} } })
  const names: Array<[name: string, says: string]> = [
    ['none.log', deploySays.outputLost('deployments/none.log')],
    ['dir.log', deploySays.outputNoFile('deployments/dir.log')]
  ]
  if (spawnSync('mkfifo', [join(home, 'deployments/pipe.log')]).status === 0)
    names.push(['pipe.log', deploySays.outputNoFile('deployments/pipe.log')])
  for (const [name, says] of names) {
    const path = join(home, 'deployments', name)
    const line = `→ ${says}`
    const text = `${line}\n`
    t.strictSame(
      (await linesFrom(path)).map(({ line }) => line.text),
      [line]
    )
    t.strictSame(await readTail(path, { maxBytes: 1000 }), { text, truncated: false, lost: true })
    t.equal(Buffer.concat(await gather(readText(path))).toString(), text)
    const window = await readWindow(path, { from: 0, maxBytes: 1000 })
    t.equal(window.text.toString(), text)
    const rest = await readWindow(path, { from: window.to, maxBytes: 1000 })
    t.strictSame([rest.text.length, rest.from, rest.to], [0, window.to, window.to], 'nothing comes after it')
    t.equal(await readBlock(path, 40, Infinity), null, 'not within the line')
    t.equal(await readBlock(path, 0, 500), null, 'not while the output is written')
    t.equal(await checkedOffset(path, 40), 0)
  }
})

t.test('tolerates invalid bytes', async t => {
  const path = await fileOf(
    t,
    Buffer.concat([Buffer.from(`${at} `), Buffer.from([0xff, 0xc3, 0x28]), Buffer.from('\nshort\n')])
  )
  t.strictSame(
    (await linesFrom(path)).map(({ line }) => line.text),
    ['\ufffd\ufffd(', '']
  )
  t.match(await readTail(path, { maxBytes: 100 }), { truncated: false })
})

t.test('returns the whole text, with and without times', async t => {
  const lines = Array.from({ length: 5000 }, (_, index) => `line ${index} ${'y'.repeat(index % 90)}`)
  const path = await fileOf(t, stored(lines))
  t.equal(Buffer.concat(await gather(readText(path))).toString(), lines.map(line => `${line}\n`).join(''))
  t.equal(Buffer.concat(await gather(readText(path, { timestamps: true }))).toString(), stored(lines))
})

t.test('returns the end of the text, from the start of a line', async t => {
  const lines = Array.from({ length: 300 }, (_, index) => `line ${index}`)
  const whole = lines.map(line => `${line}\n`).join('')
  const path = await fileOf(t, stored(lines))
  t.strictSame(await readTail(path, { maxBytes: whole.length }), { text: whole, truncated: false, lost: false })
  for (const maxBytes of [1, 8, 9, 10, 17, 100, 1000, whole.length - 1]) {
    const { text, truncated } = await readTail(path, { maxBytes })
    t.ok(truncated && text.length <= maxBytes && whole.endsWith(text), `${maxBytes} bytes`)
    if (maxBytes >= 9) t.match(text, /^line \d+\n/)
  }
  const timed = await readTail(path, { maxBytes: 40, timestamps: true })
  t.strictSame(timed, { text: storedLine(at, 'line 299'), truncated: true, lost: false })
})

t.test('cuts a last line over the limit at a character', async t => {
  const path = await fileOf(t, stored(['first', '€'.repeat(1000)]))
  const { text, truncated } = await readTail(path, { maxBytes: 100 })
  t.strictSame({ text, truncated }, { text: `${'€'.repeat(33)}\n`, truncated: true })
})

t.test('returns windows of whole lines, from and before any byte', async t => {
  const lines = ['first', '', 'ümläut 🙂', 'x'.repeat(200_000), 'last']
  const text = stored(lines)
  const path = await fileOf(t, `${text}2030-01-01T00:0`)
  const ends = [0]
  for (const line of lines) ends.push((ends.at(-1) as number) + Buffer.byteLength(storedLine(at, line)))
  const windowOf = async (wanted: { from?: number; before?: number; maxBytes: number }) => {
    const { text, from, to } = await readWindow(path, wanted)
    return { lines: text.toString().split('\n').slice(0, -1), from: ends.indexOf(from), to: ends.indexOf(to) }
  }
  const all = { lines, from: 0, to: 5 }
  t.strictSame(await windowOf({ maxBytes: 1e6 }), all)
  t.strictSame(await windowOf({ from: 0, maxBytes: 1e6 }), all)
  t.strictSame(await windowOf({ from: 1e9, maxBytes: 100 }), { lines: [], from: 5, to: 5 })
  t.strictSame(await windowOf({ before: 0, maxBytes: 100 }), { lines: [], from: 0, to: 0 })
  t.strictSame(await windowOf({ maxBytes: 40 }), { lines: ['last'], from: 4, to: 5 }, 'the end')
  const [, second, third, long, last] = ends as [number, number, number, number, number]
  t.strictSame(
    await windowOf({ before: last, maxBytes: 40 }),
    { lines: [lines[3]], from: 3, to: 4 },
    'a long line is returned whole'
  )
  t.strictSame(await windowOf({ from: long, maxBytes: 40 }), { lines: [lines[3]], from: 3, to: 4 })
  t.strictSame(await windowOf({ before: long, maxBytes: long - second }), { lines: lines.slice(1, 3), from: 1, to: 3 })
  t.strictSame(await windowOf({ before: long, maxBytes: long - second - 1 }), { lines: [lines[2]], from: 2, to: 3 })
  t.strictSame(await windowOf({ from: 0, maxBytes: third }), { lines: lines.slice(0, 2), from: 0, to: 2 })
  for (let offset = second; offset < third; offset++) {
    t.strictSame(await windowOf({ from: offset, maxBytes: 26 }), { lines: [''], from: 1, to: 2 }, `from ${offset}`)
    t.strictSame(
      await windowOf({ before: offset, maxBytes: 100 }),
      { lines: ['first'], from: 0, to: 1 },
      `before ${offset}`
    )
  }
  const timed = await readWindow(path, { from: 0, maxBytes: 1e6, timestamps: true })
  t.equal(timed.text.toString(), text)
  const lost = await readWindow(`${path}.none`, { maxBytes: 10 })
  t.match(lost.text.toString(), /the output is lost/)
  t.strictSame([lost.from, lost.to], [0, `${at} `.length + lost.text.length], 'its line is returned whole')
})
