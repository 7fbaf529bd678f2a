import t from 'tap'
import type { LogApi, LogEvent, LogSearchRequest } from '../../../lib/cli/log/log-api.js'
import type { NamedSource } from '../../../lib/cli/log/log-lines.js'
import { createPast, followLog, type PastNeeds } from '../../../lib/cli/log/log-past.js'

const all = { pattern: null, isRaw: false, least: undefined }
const { signal } = new AbortController()
const named = (id: string): NamedSource => ({
  source: {
    id,
    projectId: 'p1',
    label: id,
    filePath: `/${id}`,
    kind: 'plain',
    sortOrder: 0,
    createdAt: '',
    updatedAt: ''
  },
  name: id
})

/** A server with one file; windows are of 30 bytes whatever is asked for. */
function serverOf(text: string, times: Record<string, number> = {}) {
  const asked: LogSearchRequest[] = []
  let running = 0
  let most = 0
  const linesOf = (part: string): string[] => part.split('\n').slice(0, -1)
  const api: Pick<LogApi, 'window' | 'lines' | 'search'> = {
    async window(_id, query) {
      if (query['time'] !== undefined) return { startOffset: times[query['time']] ?? text.length } as never
      const end = Number(query['offset'])
      const start = end <= 30 ? 0 : text.indexOf('\n', end - 30) + 1
      return { startOffset: start, endOffset: end, lines: linesOf(text.slice(start, end)) } as never
    },
    async *lines(_id, { from, to }) {
      yield linesOf(text.slice(from, to))
    },
    async search(_id, request) {
      asked.push(request)
      most = Math.max(most, ++running)
      await new Promise(resolve => setTimeout(resolve, 1))
      running--
      return ['newest', 'older'].map(text => ({ offset: 0, text, before: [], after: [] }))
    }
  }
  const past = (needs: Partial<PastNeeds>) =>
    createPast({ api: api as LogApi, filter: all, sinceMs: undefined, count: 10, signal, ...needs })
  return { past, asked, most: () => most }
}

const text = Array.from({ length: 20 }, (_, index) => `line ${index}\n`).join('')

t.test('reads the last lines in as many windows as needed', async t => {
  const { past } = serverOf(text)
  const read = async (count: number, to = text.length) =>
    (await past({ count })(named('s1'), to)).map(line => line.text)
  t.same(await read(3), ['line 17', 'line 18', 'line 19'])
  t.same(
    await read(12),
    Array.from({ length: 12 }, (_, index) => `line ${index + 8}`)
  )
  t.same(
    await read(100),
    Array.from({ length: 20 }, (_, index) => `line ${index}`)
  )
  t.same(await read(2, text.indexOf('line 5')), ['line 3', 'line 4'], 'what was written before a byte')
  t.same(await read(0), [])
  t.same(await read(5, 0), [])
})

t.test('reads the lines since a time', async t => {
  const time = '2026-11-21T12:00:00.000Z'
  const { past } = serverOf(text, { [time]: text.indexOf('line 17') })
  const read = async (atMs: number) => (await past({ sinceMs: atMs })(named('s1'), text.length)).map(line => line.text)
  t.same(await read(Date.parse(time)), ['line 17', 'line 18', 'line 19'])
  t.same(await read(Date.parse(time) + 1), [], 'none was written then')
})

t.test('a line without a time has the time of the line before it, even if that line is filtered out', async t => {
  const { past } = serverOf('2026-11-21T12:00:00Z a\n  b\n')
  t.match(await past({ count: 1 })(named('s1'), 28), [{ text: '  b', timeMs: Date.parse('2026-11-21T12:00:00Z') }])
})

t.test('the server searches filtered sources, two at a time', async t => {
  const { past, asked, most } = serverOf(text)
  const pastOf = past({ filter: { pattern: /a.b/i, isRaw: false, least: 'warn' }, count: 7 })
  const found = await Promise.all(Array.from({ length: 9 }, (_, index) => pastOf(named(`s${index}`), 99)))
  t.same(
    found[8]?.map(line => line.text),
    ['older', 'newest']
  )
  t.equal(most(), 2)
  t.match(asked[0], { q: 'a.b', ignoresCase: true, level: 'warn', toOffset: 99, maxHits: 7 })
  await past({ filter: { pattern: null, isRaw: false, least: 'error' } })(named('s1'), 99)
  t.match(asked.at(-1), { q: '^', level: 'error' })
})

type Told = LogEvent | 'broken'

/** What is printed of a stream that tells this, of files that have these lines, each of two bytes. */
async function followed(told: readonly Told[], bytes = 'a\nb\nc\nd\ne\nf\n'): Promise<string[]> {
  const said: string[] = []
  const api: Pick<LogApi, 'follow' | 'lines'> = {
    async *follow(_id, { onBroken }) {
      for (const event of told) {
        if (event === 'broken') onBroken()
        else yield event
      }
    },
    async *lines(_id, { from, to }) {
      yield bytes.slice(from, to).split('\n').slice(0, -1)
    }
  }
  await followLog({
    api: api as LogApi,
    id: 's1',
    signal: new AbortController().signal,
    onBegin: async offset => void said.push(`past ${offset}`),
    onLines: async lines => void said.push(...lines),
    onNote: words => said.push(`(${words.split(/[:,]/)[0]})`)
  })
  return said
}

const snapshot = (offset: number, file = '1', lines: string[] = []): LogEvent => ({
  event: 'snapshot',
  place: { offset, file },
  lines,
  binary: false
})
const lines = (offset: number, ...words: string[]): LogEvent => ({
  event: 'lines',
  place: { offset, file: '1' },
  lines: words
})

t.test('reports new lines only; earlier lines are read by the caller', async t => {
  t.same(await followed([snapshot(4), lines(6, 'c'), lines(8, 'd')]), ['past 4', 'c', 'd'])
})

t.test('after a broken connection, exactly the missed lines are read', async t => {
  t.same(await followed([snapshot(2), lines(4, 'b'), 'broken', snapshot(8), lines(10, 'e')]), [
    'past 2',
    'b',
    '(the connection was lost)',
    'c',
    'd',
    'e'
  ])
  t.same(await followed([snapshot(2), 'broken', snapshot(2)]), ['past 2', '(the connection was lost)'])
})

t.test('reports a rotated file and reads it from its start', async t => {
  const note = '(the file was rotated meanwhile)'
  t.same(await followed([snapshot(8), 'broken', snapshot(4, '2')]), [
    'past 8',
    '(the connection was lost)',
    note,
    'a',
    'b'
  ])
  t.same(
    await followed([snapshot(8), 'broken', snapshot(2)]),
    ['past 8', '(the connection was lost)', note, 'a'],
    'truncated'
  )
})

t.test('a reported rotation is followed by the lines of the new file', async t => {
  t.same(
    await followed([
      snapshot(4),
      { event: 'rotated' },
      snapshot(2, '2', ['new']),
      { event: 'gap', bytes: 7 },
      { event: 'gap', bytes: 0 }
    ]),
    ['past 4', '(the file was rotated)', 'new', '(at least 7 bytes were lost here)', '(lines may have been lost here)']
  )
})

t.test('a missing file has no earlier lines and is read from its start when it appears', async t => {
  const missing: LogEvent = { event: 'error', message: 'It does not exist' }
  t.same(await followed([missing, snapshot(4)]), ['(It does not exist)', 'past 0', 'a', 'b'])
})
