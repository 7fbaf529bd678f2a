import t from 'tap'
import {
  createHeldLines,
  type LinePart,
  type HeldLimits,
  DeploymentOutput,
  findTime
} from '../../../www/state/held-lines.js'
import type { OutputWindow, OutputWindowQuery } from '../../../www/server/requests.js'

const part = (start: number, ...texts: string[]): LinePart => ({
  lines: texts.map(text => ({ at: '', text })),
  bytes: { start, end: start + texts.reduce((sum, text) => sum + text.length + 1, 0) }
})
const texts = (held: ReturnType<typeof createHeldLines>): string => held.lines.map(({ text }) => text).join(' ')

t.test('adds parts at both ends without changing line numbers', async t => {
  const held = createHeldLines()
  t.same([held.start, held.end], [null, null])
  held.append(part(10, 'c', 'd'))
  held.append(part(14, 'e'))
  held.prepend(part(6, 'a', 'b'))
  t.equal(texts(held), 'a b c d e')
  t.same([held.firstNumber, held.start, held.end], [-2, 6, 16])
  t.same([-2, -1, 0, 1, 2, 3].map(held.offsetOf), [6, 8, 10, 12, 14, null])
})

t.test('beyond the limit, drops whole parts at the end that is not read', async t => {
  const held = createHeldLines({ maxLines: 10 })
  for (let index = 0; index < 6; index++) held.append(part(index * 4, `${index}`, `${index}`))
  held.trim('head')
  t.equal(texts(held), '2 2 3 3 4 4 5 5')
  t.same([held.firstNumber, held.start, held.end], [4, 8, 24])
  held.prepend(part(4, '1', '1'))
  held.prepend(part(0, '0', '0'))
  held.trim('tail')
  t.equal(texts(held), '0 0 1 1 2 2 3 3')
  t.same([held.firstNumber, held.start, held.end], [0, 0, 16])
})

t.test('counts the length of long lines', async t => {
  const held = createHeldLines({ maxCharacters: 1000 })
  for (let index = 0; index < 5; index++) held.append(part(index * 400, 'x'.repeat(399)))
  held.trim('head')
  t.equal(held.lines.length, 2)
  held.append(part(9000, 'x'.repeat(5000)))
  held.trim('head')
  t.equal(held.lines.length, 1, 'the last part stays, however large')
})

t.test('removes an incomplete line', async t => {
  const held = createHeldLines()
  held.append(part(0, 'one', 'unfin'))
  held.dropLast(4)
  t.equal(texts(held), 'one')
  t.equal(held.end, 4)
  held.append(part(4, 'unfinished'))
  t.same([4, held.offsetOf(1)], [4, 4])
})

t.test('after a rotation, loaded lines have no offset', async t => {
  const held = createHeldLines({ maxLines: 3 })
  held.append(part(100, 'old', 'old'))
  held.forgetBytes()
  t.same([held.start, held.end, held.offsetOf(0)], [null, null, null])
  held.append({ lines: [{ at: '', text: 'rotated', isNote: true }], bytes: { start: 0, end: 0 } })
  held.append(part(0, 'new'))
  t.same([held.start, held.end], [null, 4], 'before the first line stands what cannot be had')
  held.trim('head')
  t.equal(texts(held), 'rotated new')
  t.equal(held.start, 0)
})

/** A file in memory, read as the server reads one: windows of whole lines. */
function fileOf(lines: string[]) {
  const text = lines.map(line => `${line}\n`).join('')
  let reads = 0
  return {
    text,
    reads: () => reads,
    search: (atMs: number) =>
      findTime({
        sizeBytes: text.length,
        atMs,
        timeOf: line => (/^\d+/.test(line) ? Number.parseInt(line, 10) : null),
        read: async offset => {
          reads++
          const startOffset = offset === 0 ? 0 : text.lastIndexOf('\n', offset - 1) + 1
          const cut = text.lastIndexOf('\n', startOffset + 8000)
          const endOffset = Math.max(cut, text.indexOf('\n', startOffset)) + 1
          return { startOffset, endOffset, lines: text.slice(startOffset, endOffset).split('\n').slice(0, -1) }
        }
      })
  }
}

async function lineAt(file: ReturnType<typeof fileOf>, atMs: number): Promise<string | null> {
  const found = await file.search(atMs)
  return found === null ? null : (file.text.slice(found.offset).split('\n')[found.line] ?? null)
}

t.test('finds the first line at or after a time in a large file with few reads', async t => {
  const file = fileOf(Array.from({ length: 50_000 }, (_, index) => `${String(index * 10).padStart(8, '0')} some words`))
  for (const [atMs, expected] of [
    [-1, '00000000'],
    [0, '00000000'],
    [5, '00000010'],
    [123_450, '00123450'],
    [499_990, '00499990']
  ] as const) {
    t.equal((await lineAt(file, atMs))?.slice(0, 8), expected, String(atMs))
  }
  t.equal(await lineAt(file, 499_991), null, 'nothing was written then')
  t.ok(file.reads() < 120, `${file.reads()} reads for six searches`)
})

t.test('skips lines without a time', async t => {
  const file = fileOf(
    Array.from({ length: 40_000 }, (_, index) => (index % 50 === 0 ? `${index} begins` : '    at some.frame()'))
  )
  t.equal(await lineAt(file, 20_001), '20050 begins')
  t.equal(await lineAt(fileOf(['no time', 'at all']), 1), null)
  t.equal(await lineAt(fileOf([]), 1), null)
})

t.test('returns the first of several lines with the same time', async t => {
  const file = fileOf(Array.from({ length: 30_000 }, (_, index) => `${Math.floor(index / 10_000)} line ${index}`))
  t.equal(await lineAt(file, 1), '1 line 10000')
  t.equal(await lineAt(file, 2), '2 line 20000')
})

t.test('handles a line that is longer than a window', async t => {
  const file = fileOf([
    ...Array.from({ length: 9000 }, (_, index) => `${index} a`),
    `9000 ${'x'.repeat(300_000)}`,
    '9001 b'
  ])
  t.equal(await lineAt(file, 9001), '9001 b')
})

const timeOf = (index: number): string => new Date(Date.parse('2026-01-01T00:00:00Z') + index * 1000).toISOString()
/** Each line takes 100 bytes, so that places can be told from numbers. */
const lineBytes = 100

/** The output of a server that has `count` lines, and may be told of more. */
function stage({ count, limits }: { count: number; limits?: HeldLimits }) {
  const server = { count, asked: [] as OutputWindowQuery[], isAway: false }
  const lineOf = (index: number) => ({ at: timeOf(index), text: `line ${index}` })
  const read = async (query: OutputWindowQuery): Promise<OutputWindow> => {
    server.asked.push(query)
    const { from, before, bytes } = query
    const most = Math.max(1, Math.floor(bytes / lineBytes))
    const end = Math.min(server.count, before === undefined ? Infinity : before / lineBytes)
    const first = from === undefined ? Math.max(0, end - most) : Math.floor(from / lineBytes)
    const last = from === undefined ? end : Math.min(server.count, first + most)
    await new Promise(resolve => setImmediate(resolve))
    if (server.isAway) throw new TypeError('Failed to fetch')
    const lines = Array.from({ length: last - first }, (_, index) => lineOf(first + index))
    return { lines, from: first * lineBytes, to: last * lineBytes }
  }
  const output = new DeploymentOutput({ read, ...(limits === undefined ? {} : { limits }) })
  const tell = (): void => {
    const index = server.count++
    output.append(lineOf(index), (index + 1) * lineBytes)
  }
  const changed = (): Promise<unknown> =>
    new Promise(resolve => output.addEventListener('change', resolve, { once: true }))
  return { server, output, tell, changed, held: () => output.lines.map(({ text }) => Number(text.slice(5))) }
}

const numbers = (from: number, end: number): number[] => Array.from({ length: end - from }, (_, index) => from + index)

t.test('loads the end first, appends new lines, and loads earlier lines when the reader reaches them', async t => {
  const { output, tell, changed, held } = stage({ count: 20_000 })
  await output.open()
  const first = held()[0] as number
  t.ok(first > 0 && first < 20_000)
  t.same(held(), numbers(first, 20_000))
  t.equal(output.told, 20_000 * lineBytes)
  t.equal(output.head, 'more')
  t.equal(output.firstNumber, 0)
  for (let index = 0; index < 3; index++) tell()
  await changed()
  t.same(held(), numbers(first, 20_003))
  t.equal(output.arrivedLines, 3)
  while (output.head === 'more') {
    output.reach('start')
    await changed()
  }
  t.same(held(), numbers(0, 20_003))
  t.equal(output.firstNumber, -first, 'numbers stay those of their lines')
  t.ok(output.isAtEnd)
})

t.test('a stream that repeats known lines adds none', async t => {
  const { output, held, changed } = stage({ count: 10 })
  await output.open()
  for (let index = 5; index < 12; index++)
    output.append({ at: timeOf(index), text: `line ${index}` }, (index + 1) * lineBytes)
  await changed()
  t.same(held(), numbers(0, 12))
  t.equal(output.arrivedLines, 2)
})

t.test('lines of the stream that arrive while the end is loading appear once', async t => {
  const { output, tell, held } = stage({ count: 1000 })
  const opening = output.open()
  for (let index = 0; index < 50; index++) tell()
  await opening
  await new Promise(resolve => setImmediate(resolve))
  t.same(held(), numbers(0, 1050))
})

t.test('beyond the limit the end is dropped for the start and loaded again, with no line missing', async t => {
  const { output, tell, changed, held } = stage({ count: 50_000, limits: { maxLines: 20_000 } })
  await output.open()
  while (output.isAtEnd) {
    output.reach('start')
    await changed()
  }
  t.ok(held().length <= 20_000)
  tell()
  await changed()
  t.not(held().at(-1), 50_000, 'what is written is counted only')
  t.equal(output.arrivedLines, 1)
  t.equal(await output.toStart(), output.firstNumber)
  t.equal(held()[0], 0)
  t.equal(output.head, 'start')
  while (!output.isAtEnd) {
    output.reach('end')
    await changed()
    t.same(held(), numbers(held()[0] as number, (held().at(-1) as number) + 1))
  }
  t.equal(held().at(-1), 50_000)
  tell()
  await changed()
  t.equal(held().at(-1), 50_001)
  await output.toStart()
  output.toEnd()
  await changed()
  t.equal(held().at(-1), 50_001)
})

t.test('finds a time anywhere in the output', async t => {
  const { output, held } = stage({ count: 100_000 })
  await output.open()
  for (const index of [0, 1, 77_777, 99_999]) {
    const number = await output.seek(Date.parse(timeOf(index)) - 500)
    t.equal(held()[(number ?? NaN) - output.firstNumber], index)
  }
  t.equal(await output.seek(Date.parse(timeOf(100_000))), null)
})

t.test('keeps the loaded lines while the server is unreachable, and retries later', async t => {
  const { server, output, changed, held } = stage({ count: 20_000 })
  await output.open()
  const before = held()
  server.isAway = true
  output.reach('start')
  await changed()
  t.same(held(), before)
  const { length } = server.asked
  output.reach('start')
  t.equal(server.asked.length, length, 'not at once')
})
