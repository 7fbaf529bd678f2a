import t from 'tap'
import { createOutput } from '../../support/growing-text.js'
import { Announcer, type LogLine, type LogText } from '../../../www/state/held-lines.js'
import { MergedLog, MergedSearch } from '../../../www/state/merged-log.js'
import type { Client } from '../../../www/server/client.js'

const at = (second: number, words: string): string => `${new Date(1e12 + second * 1000).toISOString()} ${words}`
const line = (text: string): LogLine => ({ at: '', text })
const words = (log: LogText): string => log.lines.map(({ text }) => text.split(' ').at(-1)).join(' ')

/** A log of which only the end is held, and the rest comes when it is wanted. */
class PagedLog extends Announcer implements LogText {
  readonly epoch = 0
  readonly isAtEnd = true
  arrivedLines = 0
  firstNumber: number
  lines: LogLine[]
  readonly #all: string[]

  constructor(all: string[], held: number) {
    super()
    this.#all = all
    this.firstNumber = all.length - held
    this.lines = all.slice(-held).map(line)
  }

  get head(): LogText['head'] {
    return this.firstNumber > 0 ? 'more' : 'start'
  }

  reach(): void {
    const first = Math.max(0, this.firstNumber - 2)
    this.lines = [...this.#all.slice(first, this.firstNumber).map(line), ...this.lines]
    this.firstNumber = first
    this.announce()
  }

  async seek(): Promise<null> {
    return null
  }
}

/** A log of which a part is held that can be anywhere. */
class PlacedLog extends Announcer implements LogText {
  epoch = 0
  arrivedLines = 0
  firstNumber = 0
  lines: LogLine[] = []
  #from = 0
  #end = 0
  readonly #seconds: readonly number[]
  readonly #name: string

  constructor(name: string, seconds: readonly number[]) {
    super()
    this.#name = name
    this.#seconds = seconds
    this.toEnd()
  }

  #hold(from: number, end: number): void {
    this.#from = Math.max(0, from)
    this.#end = Math.min(this.#seconds.length, end)
    this.lines = this.#seconds.slice(this.#from, this.#end).map(second => line(at(second, `${this.#name}${second}`)))
    this.announce()
  }

  get head(): LogText['head'] {
    return this.#from > 0 ? 'more' : 'start'
  }

  get isAtEnd(): boolean {
    return this.#end === this.#seconds.length
  }

  reach(edge: 'start' | 'end'): void {
    const from = edge === 'start' ? Math.max(0, this.#from - 3) : this.#from
    this.firstNumber -= this.#from - from
    this.#hold(from, edge === 'end' ? this.#end + 3 : this.#end)
  }

  toEnd(): void {
    this.epoch++
    this.firstNumber = 0
    this.#hold(this.#seconds.length - 4, this.#seconds.length)
  }

  async seek(atMs: number): Promise<number | null> {
    const found = this.#seconds.findIndex(second => 1e12 + second * 1000 >= atMs)
    if (found === -1) return null
    this.epoch++
    this.firstNumber = 0
    this.#hold(found - 2, found + 3)
    return Math.min(found, 2)
  }
}

function merged(t: { teardown(work: () => void): void }, parts: LogText[]): MergedLog {
  const life = new AbortController()
  t.teardown(() => life.abort())
  return new MergedLog({ parts, signal: life.signal, holdMs: 20 })
}

const changed = (log: LogText): Promise<unknown> =>
  new Promise(resolve => log.addEventListener('change', resolve, { once: true }))

t.test('sorts the lines of several logs by time, each with its log', async t => {
  const parts = [createOutput(), createOutput()]
  for (const [part, second, name] of [
    [0, 1, 'a1'],
    [0, 4, 'a4'],
    [1, 2, 'b2'],
    [1, 3, 'b3']
  ] as const) {
    parts[part]?.append(line(at(second, name)) as { at: string; text: string })
  }
  const log = merged(t, parts)
  t.equal(words(log), 'a1 b2 b3 a4')
  t.same(
    log.lines.map(({ source }) => source),
    [0, 1, 1, 0]
  )
})

t.test('a line without a time stays with the one before it', async t => {
  const parts = [createOutput(), createOutput()]
  for (const text of [at(1, 'a1'), '  at frame a1+', at(3, 'a3')]) parts[0]?.append({ at: '', text })
  parts[1]?.append({ at: '', text: at(2, 'b2') })
  t.equal(words(merged(t, parts)), 'a1 a1+ b2 a3')
})

t.test('new lines wait for older ones of the others', async t => {
  const parts = [createOutput(), createOutput()]
  for (const part of parts) part.append({ at: '', text: at(0, 'begin') })
  const log = merged(t, parts)
  await changed(log)
  parts[0]?.append({ at: '', text: at(9, 'a9') })
  await Promise.resolve()
  parts[1]?.append({ at: '', text: at(8, 'b8') })
  while (log.arrivedLines < 2) await changed(log)
  t.equal(words(log), 'begin begin b8 a9')
  t.equal(log.arrivedLines, 2)
})

t.test('begins where every log has lines, and loads earlier lines on request without changing numbers', async t => {
  const a = Array.from({ length: 10 }, (_, index) => at(index * 10, `a${index}`))
  const b = Array.from({ length: 10 }, (_, index) => at(index * 10 + 5, `b${index}`))
  const log = merged(t, [new PagedLog(a, 2), new PagedLog(b, 6)])
  t.equal(words(log), 'a8 b8 a9 b9')
  const first = log.lines[0]
  while (log.head === 'more') {
    log.reach('start')
    await changed(log)
  }
  t.equal(words(log), a.map((_, index) => `a${index} b${index}`).join(' '))
  t.equal(log.lines[0 - log.firstNumber], first, 'number 0 is what it was')
  t.equal(await log.seek(1e12 + 51_000), log.firstNumber + 11)
  t.equal(await log.seek(1e13), null)
})

t.test('pages to a time that is not loaded', async t => {
  const a = Array.from({ length: 40 }, (_, index) => at(index * 10, `a${index}`))
  const log = merged(t, [new PagedLog(a, 2), new PagedLog([at(1000, 'b')], 1)])
  const found = await log.seek(1e12 + 200_000)
  t.equal(log.lines[(found as number) - log.firstNumber]?.text, a[20])
})

t.test('jumps to a distant time in all logs, and reads on from there to the end', async t => {
  const even = new PlacedLog(
    'a',
    Array.from({ length: 50 }, (_, index) => index * 2)
  )
  const odd = new PlacedLog(
    'b',
    Array.from({ length: 50 }, (_, index) => index * 2 + 1)
  )
  const late = new PlacedLog('c', [500, 501, 502])
  const log = merged(t, [even, odd, late])
  const seconds = (): number[] => log.lines.map(({ text }) => Number(text.split(' ').at(-1)?.slice(1)))
  const inOrder = (): void => {
    t.same(
      seconds(),
      seconds()
        .map((_, index) => (seconds()[0] as number) + index)
        .map(second => (second > 99 ? second + 400 : second))
    )
  }

  const number = await log.jump(1e12 + 31_000, ({ text }) => text.endsWith('b31'))
  t.match(log.lines[(number ?? NaN) - log.firstNumber]?.text, / b31$/)
  t.notOk(log.isAtEnd)
  t.equal(log.head, 'more')
  inOrder()
  t.ok(seconds().length < 12, 'what all of them reach, no more')
  log.reach('start')
  await changed(log)
  inOrder()
  const { epoch } = log
  while (!log.isAtEnd) {
    log.reach('end')
    await changed(log)
    inOrder()
  }
  t.equal(seconds().at(-1), 502)
  t.equal(log.epoch, epoch, 'numbers stay those of their lines')
  t.equal(
    await log.jump(1e12 + 40_500, () => true),
    log.firstNumber + seconds().indexOf(41),
    'what is held is not asked for again'
  )
  t.equal(await log.jump(1e12 + 600_000, () => true), null)
})

t.test('keeps the order of each file if its times step back', async t => {
  const back = ['b', 'c', 'd'].map((name, index) => at(100 + index, name))
  for (const [name, first, second, expected] of [
    [
      'the clock was set back',
      [at(50, 'a'), ...back, at(1, 'e'), at(2, 'f')],
      [at(60, 'x'), at(101, 'y'), at(103, 'z')],
      'c y d e f z'
    ],
    [
      'before all lines of the other',
      [at(900, 'a'), at(901, 'b'), at(902, 'c'), at(1, 'd')],
      [at(500, 'x'), at(501, 'y'), at(502, 'z')],
      'b c d'
    ],
    [
      'in both',
      [at(300, 'a'), at(301, 'b'), at(302, 'c'), at(2, 'd')],
      [at(400, 'w'), at(401, 'x'), at(402, 'y'), at(3, 'z')],
      'x y z'
    ],
    [
      'a line of the future',
      [at(1, 'a'), at(2, 'b'), `${new Date(Date.now() + 1e12).toISOString()} c`, at(4, 'd')],
      [at(1, 'w'), at(2, 'x'), at(3, 'y'), at(5, 'z')],
      'b c x y d z'
    ]
  ] as const) {
    const parts = [new PagedLog([...first], first.length - 1), new PagedLog([...second], second.length - 1)]
    const log = new MergedLog({ parts, signal: new AbortController().signal })
    t.equal(words(log), expected, name)
    while (log.head === 'more') {
      const change = new Promise(resolve => log.addEventListener('change', resolve, { once: true }))
      log.reach('start')
      await change
    }
    t.equal(log.lines.length, first.length + second.length, `${name}: all of both come`)
    for (const source of [0, 1]) {
      const own = log.lines.filter(line => line.source === source).map(({ text }) => text)
      t.same(own, source === 0 ? first : second, `${name}: a file keeps its order`)
    }
  }
})

t.test('shows a log without times at the end', async t => {
  const timed = Array.from({ length: 10 }, (_, index) => at(index, String(index)))
  const parts = [new PagedLog(['p', 'q', 'r'], 2), new PagedLog(timed, 3)]
  const log = new MergedLog({ parts, signal: new AbortController().signal, holdMs: 1 })
  t.equal(words(log), '7 8 9 q r')
  log.reach('start')
  await new Promise(resolve => log.addEventListener('change', resolve, { once: true }))
  t.equal(words(log), '5 6 7 8 9 q r', 'the one with times is paged first')
})

const sought = { q: 'error', isRegex: false, ignoresCase: true }
const timeOf = (second: number): string => new Date(1e12 + second * 1000).toISOString()
const hit = (offset: number, text: string, before: string[] = []): string =>
  `event: hit\ndata: ${JSON.stringify({ offset, text, before, after: [] })}\n\n`
const done = 'event: done\ndata: {}\n\n'

/** A server whose searches answer with these streams. */
/** A client whose searches are answered by a function. */
function searching(answer: (id: string, query: URLSearchParams, signal?: AbortSignal) => Promise<Response>): Client {
  const send: Client['send'] = (_method, path, options) => {
    const { pathname, searchParams } = new URL(path, 'http://svc')
    return answer(pathname.split('/')[3] ?? '', searchParams, options?.signal)
  }
  return { send } as Client
}

const clientOf = (streams: Record<string, string>): Client => searching(async id => new Response(streams[id]))

t.test('sorts hits of several files newest first, those without a time last', async t => {
  const asked: Array<{ id: string; query: unknown }> = []
  const streams: Record<string, string> = {
    one: hit(30, 'error of no time') + hit(20, `${timeOf(4)} error a4`) + hit(10, `${timeOf(1)} error a1`) + done,
    two: `:progress 5/10\n\n${hit(9, '  at error', [`${timeOf(3)} b3`])}${hit(5, `${timeOf(2)} error b2`)}${done}`
  }
  const client = searching(async (id, query) => {
    asked.push({ id, query: Object.fromEntries(query) })
    return new Response(streams[id])
  })
  const search = new MergedSearch(sought, ['one.log', 'two.log'])
  t.equal(search.state, 'running')
  await search.run(client, ['one', 'two'])
  t.same(
    search.hits.map(({ source, offset }) => [source, offset]),
    [
      [0, 20],
      [1, 9],
      [1, 5],
      [0, 10],
      [0, 30]
    ]
  )
  t.same(
    search.hits.map(({ timeMs }) => timeMs),
    [1e12 + 4000, 1e12 + 3000, 1e12 + 2000, 1e12 + 1000, null]
  )
  t.equal(search.state, 'done')
  t.match(asked, [
    { id: 'one', query: { q: sought.q, order: 'newest' } },
    { id: 'two', query: { q: sought.q, order: 'newest' } }
  ])
})

t.test('reports the error of a file with its name, and keeps the hits of the others', async t => {
  const refused = `event: error\ndata: ${JSON.stringify({ message: 'The file is gone' })}\n\n`
  const search = new MergedSearch(sought, ['one.log', 'two.log'])
  await search.run(clientOf({ one: refused, two: hit(5, `${timeOf(2)} error`) + done }), ['one', 'two'])
  t.equal(search.state, 'failed')
  t.equal(search.problem, 'one.log: The file is gone')
  t.equal(search.hits.length, 1)
})

t.test('loads older hits of the other files if one cannot be searched', async t => {
  const refused = `event: error\ndata: ${JSON.stringify({ message: 'No times' })}\n\n`
  const search = new MergedSearch(sought, ['one.log', 'two.log'])
  const cut = `event: truncated\ndata: {"maxHits":1}\n\n${done}`
  await search.run(clientOf({ one: refused, two: hit(5, `${timeOf(2)} error`) + cut }), ['one', 'two'])
  t.equal(search.state, 'cut')
  t.equal(search.problem, 'one.log: No times')
})

t.test('can be cancelled', async t => {
  const search = new MergedSearch(sought, ['one.log', 'two.log'])
  const over = search.run(
    searching(
      (_id, _query, signal) =>
        new Promise((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason)))
    ),
    ['one', 'two']
  )
  search.cancel()
  await over
  t.equal(search.state, 'cancelled')
})

t.test('loads older hits on request, and shows no file further back than the others', async t => {
  const cut = `event: truncated\ndata: {"maxHits":2}\n\n${done}`
  const pages: Record<string, string[]> = {
    one: [
      hit(90, `${timeOf(9)} error a9`) + hit(80, `${timeOf(8)} error a8`) + cut,
      hit(30, `${timeOf(3)} error a3`) + done
    ],
    two: [
      hit(70, `${timeOf(7)} error b7`) + hit(20, `${timeOf(2)} error b2`) + cut,
      hit(10, `${timeOf(1)} error b1`) + done
    ]
  }
  const asked: Array<[string, unknown]> = []
  const search = new MergedSearch({ ...sought, level: 'error' }, ['one.log', 'two.log'])
  const shown = (): string => search.hits.map(({ text }) => text.split(' ').at(-1)).join(' ')
  await search.run(
    searching(async (id, query) => {
      asked.push([id, query.get('toOffset')])
      t.equal(query.get('level'), 'error')
      return new Response(pages[id]?.shift())
    }),
    ['one', 'two']
  )
  t.equal(search.state, 'cut')
  t.equal(shown(), 'a9 a8', 'what lies before the oldest hit of the first is not known yet')
  const ended = async (): Promise<void> => {
    search.older()
    while (search.state === 'running')
      await new Promise(resolve => search.addEventListener('change', resolve, { once: true }))
  }
  await ended()
  t.equal(shown(), 'a9 a8 b7 a3 b2')
  await ended()
  t.equal(shown(), 'a9 a8 b7 a3 b2 b1')
  t.equal(search.state, 'done')
  t.same(asked, [
    ['one', null],
    ['two', null],
    ['one', '80'],
    ['two', '20']
  ])
})

t.test('searches two files at a time', async t => {
  const names = Array.from({ length: 7 }, (_, index) => `${index}.log`)
  let running = 0
  let most = 0
  const search = new MergedSearch(sought, names)
  await search.run(
    searching(async () => {
      most = Math.max(most, ++running)
      await new Promise(resolve => setTimeout(resolve, 1))
      running--
      return new Response(done)
    }),
    names
  )
  t.equal(most, 2)
  t.equal(search.state, 'done')
})
