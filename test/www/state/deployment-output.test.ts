import t from 'tap'
import type { HeldLimits } from '../../../www/state/held-lines.js'
import type { OutputWindow, OutputWindowQuery } from '../../../www/server/calls.js'
import { DeploymentOutput } from '../../../www/state/deployment-output.js'

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
