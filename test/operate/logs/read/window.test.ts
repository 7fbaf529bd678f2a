import { open } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { readWindow, type Direction } from '../../../../lib/operate/logs/read/window.js'
import type { LogWindow } from '../../../../lib/model/log-source.js'
import { createRandom } from '../../../support/random.js'
import { repetitions } from '../../../support/thorough.js'

type Look = (direction: Direction, offset: number, sizeBytes: number) => Promise<LogWindow>

async function look(t: Test, bytes: string | Buffer): Promise<Look> {
  const handle = await open(join(t.testdir({}), 'file'), 'w+')
  t.teardown(() => handle.close())
  await handle.writeFile(bytes)
  const { size } = await handle.stat()
  return (direction, offset, sizeBytes) => readWindow(handle, size, { direction, offset, sizeBytes })
}

t.test('begins and ends a window with a line', async t => {
  const window = await look(t, 'one\ntwo\r\n\nthree')
  const cases: Array<[Direction, number, number, string[], number, number, string]> = [
    ['tail', 0, 100, ['one', 'two', '', 'three'], 0, 15, 'all of it'],
    ['tail', 0, 8, ['', 'three'], 9, 15, 'the last lines that fit'],
    ['tail', 0, 6, ['', 'three'], 9, 15, 'that just fit'],
    ['tail', 0, 5, ['three'], 10, 15, 'that just fits'],
    ['forward', 0, 8, ['one'], 0, 4, 'the first lines that fit'],
    ['forward', 0, 9, ['one', 'two'], 0, 9, 'that just fit'],
    ['forward', 2, 9, ['one', 'two'], 0, 9, 'begins with the line the offset lies in'],
    ['forward', 4, 9, ['two', ''], 4, 10, 'at a line'],
    ['forward', 9, 3, [''], 9, 10, 'an empty line'],
    ['forward', 15, 9, [], 15, 15, 'nothing at the end'],
    ['forward', 99, 9, [], 15, 15, 'beyond the end'],
    ['backward', 9, 100, ['one', 'two'], 0, 9, 'what ends there'],
    ['backward', 9, 7, ['two'], 4, 9, 'the last line before'],
    ['backward', 6, 20, ['one', 'two'], 0, 9, 'ends with the line the offset lies in'],
    ['backward', 0, 7, [], 0, 0, 'nothing before the start']
  ]
  for (const [direction, offset, size, lines, start, end, what] of cases) {
    t.same(
      await window(direction, offset, size),
      {
        startOffset: start,
        endOffset: end,
        fileSize: 15,
        lines,
        truncatedHead: start > 0,
        truncatedTail: end < 15,
        binary: false
      },
      `${direction} ${offset} ${size}: ${what}`
    )
  }
})

t.test('returns every byte once when paging through any file, for every size and in both directions', async t => {
  const files = {
    'short lines': 'a\nbb\n\nccc\r\n\r\ndddd',
    'long lines': `${'x'.repeat(50)}\n${'y'.repeat(31)}\r\nshort\n${'z'.repeat(64)}`,
    'characters of every length': `${'aä€😀'.repeat(9)}\n${'😀'.repeat(20)}\nende\n`,
    'no UTF-8': Buffer.concat([Buffer.alloc(40, 0xbf), Buffer.from('\n'), Buffer.alloc(40, 0xe4)]),
    'only line ends': '\n\n\r\n\n\n'
  }
  for (const [what, file] of Object.entries(files)) {
    const bytes = Buffer.from(file as string)
    const window = await look(t, bytes)
    const isText = !bytes.toString().includes('\ufffd')
    for (let size = 1; size < 80; size++) {
      const pieces: LogWindow[] = []
      for (let at = 0; at < bytes.length; ) {
        const one = await window('forward', at, size)
        if (one.startOffset !== at || one.endOffset <= at)
          t.fail(`${what}, ${size} forward at ${at}: ${JSON.stringify(one)}`)
        at = Math.max(one.endOffset, at + 1)
        pieces.push(one)
      }
      for (let at = bytes.length; at > 0; ) {
        const one = await window('backward', at, size)
        if (one.endOffset !== at || one.startOffset >= at)
          t.fail(`${what}, ${size} backward at ${at}: ${JSON.stringify(one)}`)
        at = Math.min(one.startOffset, at - 1)
        pieces.push(one)
      }
      const broken = pieces.find(({ lines }) => isText && lines.some(line => line.includes('\ufffd')))
      if (broken) t.fail(`${what}, ${size}: a character was split: ${JSON.stringify(broken)}`)
      const wide = pieces.find(({ startOffset, endOffset }) => endOffset - startOffset > Math.max(size, 4) + 2)
      if (wide) t.fail(`${what}, ${size}: too wide: ${JSON.stringify(wide)}`)
    }
    t.pass(what)
  }
})

t.test('returns a window that contains the requested offset', async t => {
  const bytes = Buffer.from(`one\ntwo\n${'x'.repeat(40)}\nlast\n`)
  const window = await look(t, bytes)
  for (let size = 8; size < 60; size++) {
    for (let at = 0; at < bytes.length; at++) {
      const one = await window('forward', at, size)
      if (one.startOffset > at || one.endOffset <= at) t.fail(`forward ${at} ${size}`)
      const back = await window('backward', at + 1, size)
      if (back.startOffset > at || back.endOffset <= at) t.fail(`backward ${at} ${size}`)
    }
  }
})

t.test('detects binary files', async t => {
  t.match(await (await look(t, Buffer.from([0, 1, 2, 255, 10, 0, 3])))('tail', 0, 100), { binary: true, lines: [] })
  t.match(await (await look(t, `${'text\n'.repeat(200)}\0\n`))('tail', 0, 9999), { binary: false }, 'one stray NUL')
  const hole = Buffer.concat([Buffer.alloc(5000), Buffer.from('after copytruncate\n')])
  t.same((await (await look(t, hole))('tail', 0, 9999)).lines, ['after copytruncate'], 'a hole at the start')
  t.match(await (await look(t, ''))('tail', 0, 100), { binary: false, lines: [], fileSize: 0 }, 'an empty file')
})

t.test('returns a whole character if the size is smaller, for every width and offset', async t => {
  const random = createRandom(13)
  const characters = ['a', 'ä', '€', '😀', '\n', '\r\n']
  const files = [
    '😀',
    '€',
    'ä',
    '😀\n',
    '\r\n',
    'a😀b',
    ...random.some(60, () => random.some(12, () => random.oneOf(characters)).join(''))
  ]
  let checked = 0
  for (const file of files) {
    const bytes = Buffer.from(file)
    const window = await look(t, bytes)
    const starts = startsOf(file)
    for (const direction of ['forward', 'backward', 'tail'] as const) {
      for (let size = 1; size <= 8; size++) {
        for (let at = 0; at <= bytes.length; at++) {
          const { startOffset, endOffset, lines } = await window(direction, at, size)
          const where = `${JSON.stringify(file)} ${direction} ${at} ${size}: ${startOffset} to ${endOffset}`
          const asked = direction === 'tail' ? bytes.length : at
          if (!starts.has(startOffset) || !starts.has(endOffset)) t.fail(`${where}: a character is cut`)
          if (lines.some(line => line.includes('\ufffd'))) t.fail(`${where}: ${JSON.stringify(lines)}`)
          if (direction === 'forward' ? asked < bytes.length && endOffset <= asked : asked > 0 && startOffset >= asked)
            t.fail(`${where}: nothing new`)
          if (direction === 'forward' ? startOffset > asked : endOffset < asked) t.fail(`${where}: bytes are left out`)
          checked++
        }
      }
    }
  }
  t.comment(`${checked} windows`)
})

/** Returns the positions at which characters start, and the end of the text: the only allowed edges. */
function startsOf(text: string): Set<number> {
  const starts = new Set([0])
  let at = 0
  for (const character of text) starts.add((at += Buffer.byteLength(character)))
  return starts
}

t.test('returns the same lines as the whole file if the lines fit', async t => {
  let checked = 0
  for (let seed = 1; seed <= repetitions(30, 150); seed++) {
    const random = createRandom(seed)
    const lines = [0, ...random.some(12, () => 0)].map(
      () => `${'xä€😀'.slice(0, random.below(4))}${'y'.repeat(random.below(12))}${random.oneOf(['\n', '\r\n'])}`
    )
    if (random.below(2) === 0) lines.push('unfinished')
    const bytes = Buffer.from(lines.join(''))
    const edges = [0]
    for (const line of lines) edges.push((edges.at(-1) as number) + Buffer.byteLength(line))
    const longest = Math.max(...lines.map(line => Buffer.byteLength(line)))
    const window = await look(t, bytes)
    for (let count = 0; count < 40; count++) {
      const size = longest + 8 + random.below(60)
      const at = random.below(bytes.length + 1)
      const start = edges.findLast(edge => edge <= at) as number
      const end = edges.find(edge => edge >= at) as number
      const expected = {
        forward: [start, edges.findLast(edge => edge <= start + size)],
        backward: [edges.find(edge => edge >= end - size), end],
        tail: [edges.find(edge => edge >= bytes.length - size), bytes.length]
      }
      for (const direction of ['forward', 'backward', 'tail'] as const) {
        const { startOffset, endOffset, lines: shown } = await window(direction, at, size)
        const wanted = expected[direction]
        const text = bytes.subarray(wanted[0], wanted[1]).toString()
        const plainLines = text === '' ? [] : text.replace(/\r?\n$/, '').split(/\r?\n/)
        checked++
        if (
          startOffset === wanted[0] &&
          endOffset === wanted[1] &&
          JSON.stringify(shown) === JSON.stringify(plainLines)
        )
          continue
        t.same([startOffset, endOffset, shown], [...wanted, plainLines], `seed ${seed}: ${direction} ${at} ${size}`)
      }
    }
  }
  t.comment(`${checked} windows`)
})
