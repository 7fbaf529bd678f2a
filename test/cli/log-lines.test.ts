import t, { type Test } from 'tap'
import {
  createLinePrinter,
  createLineReader,
  jsonLine,
  mergeLines,
  namedSources,
  type TailLine,
  createLogApi,
  type LogApi,
  type LogEvent
} from '../../lib/cli/log-lines.js'
import { createPaint } from '../../lib/cli/terminal/output.js'
import type { LogSource } from '../../lib/model/log-source.js'
import type * as http from 'node:http'
import { clientOf } from '../support/client-of.js'

const all = { pattern: null, isRaw: false, least: undefined }
const readAll = (
  name: string,
  texts: readonly string[],
  filter: Parameters<typeof createLineReader>[1] = all
): TailLine[] => {
  const read = createLineReader({ name, sourceId: `id-${name}` }, filter)
  return texts.flatMap(text => read(text) ?? [])
}

t.test('keeps the matching lines and their continuation lines', async t => {
  const texts = ['INFO a', 'ERROR b', '    at c', 'WARN d', 'e']
  const shown = (filter: Parameters<typeof createLineReader>[1]): string =>
    readAll('x', texts, filter)
      .map(({ text }) => text.trim().split(' ').at(-1))
      .join('')
  t.equal(shown(all), 'abcde')
  t.equal(shown({ pattern: null, isRaw: false, least: 'error' }), 'bc')
  t.equal(shown({ pattern: null, isRaw: false, least: 'warn' }), 'bcde')
  t.equal(shown({ pattern: /at|INFO/, isRaw: false, least: undefined }), 'ac')
  t.equal(shown({ pattern: /at|INFO/, isRaw: false, least: 'error' }), 'c')
  const coloured = ['\x1b[31mer\x1b[1mror\x1b[0m\ta', 'error b']
  const matched = (pattern: RegExp, isRaw: boolean): string =>
    readAll('x', coloured, { pattern, isRaw, least: undefined })
      .map(({ text }) => text.at(-1))
      .join('')
  t.equal(matched(/^error/, false), 'ab', 'what is printed')
  t.equal(matched(/error\t/, false), 'a')
  t.equal(matched(/^error/, true), 'b', 'what is in the file')
})

t.test('merges logs by time, and each log keeps its order', async t => {
  const one = readAll('one', [
    '  first',
    '2026-11-21T10:00:02Z a',
    '  more of a',
    '2026-11-21T10:00:01Z back',
    '2026-11-21T10:00:05Z b'
  ])
  const two = readAll('two', ['2026-11-21T10:00:01Z x', '2026-11-21T10:00:03Z y'])
  const none = readAll('none', ['untimed'])
  t.same(
    mergeLines([one, two, none]).map(({ text }) => text.trim().split(' ').at(-1)),
    ['x', 'first', 'a', 'a', 'back', 'y', 'b', 'untimed']
  )
})

t.test('for people, a line shows its source if there are several, and its level in colour', async t => {
  const [line] = readAll('app.log', ['12:00 ERROR x']) as [TailLine]
  const plain = createPaint({}, {})
  t.equal(createLinePrinter(['app.log'], plain)(line), '12:00 ERROR x\n')
  t.equal(createLinePrinter(['app.log', 'long-name.log'], plain)(line), 'app.log       | 12:00 ERROR x\n')
  const colored = createPaint({ isTTY: true }, {})
  t.equal(createLinePrinter(['app.log'], colored)(line), '12:00 \x1b[31mERROR\x1b[39m x\n')
  const [own] = readAll('app.log', ['\x1b[32mERROR\x1b[0m x']) as [TailLine]
  t.equal(createLinePrinter(['app.log'], colored)(own), '\x1b[32mERROR\x1b[0m x\n', 'colours of its own stay')
})

t.test('for programs, each line is a JSON object', async t => {
  const [line] = readAll('app.log', ['2026-11-21T10:00:00Z ERROR x']) as [TailLine]
  t.same(JSON.parse(jsonLine(line)), {
    source: 'app.log',
    sourceId: 'id-app.log',
    time: '2026-11-21T10:00:00.000Z',
    level: 'error',
    text: '2026-11-21T10:00:00Z ERROR x'
  })
  t.match(JSON.parse(jsonLine(readAll('a', ['x'])[0] as TailLine)), { time: null, level: null })
})

const source = (id: string, projectId: string, label: string): LogSource => ({
  id,
  projectId,
  label,
  filePath: `/var/log/${label}`,
  kind: 'plain',
  sortOrder: 0,
  createdAt: '',
  updatedAt: ''
})

const known = {
  projects: [
    { id: 'p1', name: 'shop' },
    { id: 'p2', name: 'billing' },
    { id: 'p3', name: 'empty' },
    { id: 'p4', name: 'twin' },
    { id: 'p5', name: 'twin' }
  ],
  sources: [
    source('s1', 'p1', 'access.log'),
    source('s2', 'p1', 'error.log'),
    source('s3', 'p2', 'error.log'),
    source('s4', 'p2', 'a, b')
  ]
}

t.test('a name selects a log source, all sources of a project, or several sources', async t => {
  for (const [word, expected] of [
    ['s1', ['access.log']],
    ['access.log', ['access.log']],
    ['shop', ['access.log', 'error.log']],
    ['p2', ['error.log', 'a, b']],
    ['billing/error.log', ['error.log']],
    ['a, b', ['a, b']],
    ['access.log, s3', ['access.log', 'error.log']],
    ['shop,billing', ['shop/access.log', 'shop/error.log', 'billing/error.log', 'billing/a, b']],
    ['s1,shop', ['access.log', 'error.log']]
  ] as const) {
    t.same(
      namedSources(word, known).map(({ name }) => name),
      expected,
      word
    )
  }
})

t.test('an ambiguous, empty or unknown name is refused with the possible names', async t => {
  t.throws(() => namedSources('error.log', known), {
    code: 'ambiguous_source',
    message: /shop\/error\.log \(log source s2\), billing\/error\.log \(log source s3\)/
  })
  t.throws(() => namedSources('twin', known), {
    code: 'ambiguous_source',
    message: /twin \(project p4\), twin \(project p5\)/
  })
  t.throws(() => namedSources('empty', known), { code: 'no_sources', message: /"empty" has no log sources/ })
  t.throws(() => namedSources('acess.log', known), { code: 'unknown_source', message: /Did you mean "access\.log"/ })
  t.throws(() => namedSources('s1,nothing-like-it', known), { code: 'unknown_source' })
})

async function apiOf(t: Test, handle: http.RequestListener): Promise<LogApi> {
  return createLogApi(await clientOf(t, handle))
}

const { signal } = new AbortController()
const event = (name: string, data: object, id = ''): string =>
  `event: ${name}\n${id && `id: ${id}\n`}data: ${JSON.stringify(data)}\n\n`
const events = { 'content-type': 'text/event-stream' }

t.test('a broken stream is opened again, and each event has its byte offset', async t => {
  let asked = 0
  let broken = 0
  const after: unknown[] = []
  const api = await apiOf(t, ({ headers }, response) => {
    asked++
    after.push(headers['last-event-id'])
    if (asked === 2) return void response.writeHead(503, { 'content-type': 'text/html' }).end()
    response.writeHead(200, events)
    if (asked === 1)
      response.write(
        `${event('snapshot', { lines: [], size: 4, binary: false }, '4@7:1')}${event('lines', { lines: ['a'] }, '6@7:1;k;z,4@7:0;k;z')}`,
        () => response.destroy()
      )
    else
      response.write(
        `${event('resumed', { size: 8 }, '6@7:1;k;z')}${event('lines', { lines: ['late'] }, ',5@7:0;k;z')}${event('snapshot', { lines: [] }, '8@7:2')}${event('rotated', { at: 'now' })}${event('gap', { bytes: 3 })}${event('error', { message: 'gone' })}`
      )
  })
  const told: LogEvent[] = []
  for await (const each of api.follow('s 1', { signal, onBroken: () => void broken++ })) {
    told.push(each)
    if (each.event === 'error') break
  }
  t.same(told, [
    { event: 'snapshot', place: { offset: 4, file: '7:1' }, lines: [], binary: false },
    { event: 'lines', place: { offset: 6, file: '7:1' }, lines: ['a'] },
    { event: 'resumed' },
    { event: 'lines', place: null, lines: ['late'] },
    { event: 'snapshot', place: { offset: 8, file: '7:2' }, lines: [], binary: false },
    { event: 'rotated' },
    { event: 'gap', bytes: 3 },
    { event: 'error', message: 'gone' }
  ])
  t.equal(broken, 2)
  const id = '6@7:1;k;z,4@7:0;k;z'
  t.same(after, [undefined, id, id])
})

t.test('a refused request is not repeated', async t => {
  let asked = 0
  const api = await apiOf(t, (_, response) => {
    asked++
    response.writeHead(403, { 'content-type': 'application/json' }).end('{"error":"Denied","code":"denied_path"}')
  })
  await t.rejects(api.follow('s1', { signal, onBroken() {} }).next(), { code: 'denied_path' })
  t.equal(asked, 1)
})

t.test('a search returns the newest hits, and a failed search gives the reason', async t => {
  const urls: string[] = []
  const api = await apiOf(t, ({ url }, response) => {
    urls.push(String(url))
    response.writeHead(200, events)
    response.end(
      urls.length === 1
        ? `${event('hit', { offset: 9, text: 'x', before: [], after: [] })}${event('truncated', { maxHits: 1 })}${event('done', {})}`
        : urls.length === 2
          ? event('error', { message: 'No line says a time' })
          : event('hit', { offset: 1, text: 'x' })
    )
  })
  const request = {
    q: 'a&b',
    ignoresCase: true,
    isRaw: true,
    level: 'warn',
    since: '2026-11-21T12:00:00Z',
    toOffset: 20,
    maxHits: 1,
    signal
  } as const
  t.match(await api.search('s1', request), [{ offset: 9, text: 'x' }])
  t.equal(
    urls[0],
    '/api/log-sources/s1/search?q=a%26b&regex=1&caseInsensitive=1&raw=1&level=warn&since=2026-11-21T12%3A00%3A00Z&toOffset=20&maxHits=1&context=0&order=newest'
  )
  await t.rejects(api.search('s1', request), { code: 'search_failed', message: 'No line says a time' })
  await t.rejects(api.search('s1', request), { code: 'stream_broken' }, 'a stream that just ends')
})

t.test('reads the lines between two bytes in as many windows as needed', async t => {
  const text = Array.from({ length: 300_000 }, (_, index) => `line ${index}\n`).join('')
  const api = await apiOf(t, ({ url }, response) => {
    const query = new URL(String(url), 'http://x').searchParams
    const offset = Number(query.get('offset'))
    const end = text.lastIndexOf('\n', offset + Number(query.get('size')) - 1) + 1
    const body = { startOffset: offset, endOffset: end, lines: text.slice(offset, end).split('\n').slice(0, -1) }
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  })
  const to = text.indexOf('line 250000\n')
  const read: string[] = []
  let windows = 0
  for await (const lines of api.lines('s1', { from: text.indexOf('line 10\n'), to }, { signal })) {
    windows++
    read.push(...lines)
  }
  t.equal(windows, 3)
  t.equal(read.length, 249_990)
  t.equal(read.at(-1), 'line 249999')
})

t.test('lines that were missed are read again if the connection breaks while they are read', async t => {
  let asked = 0
  const api = await apiOf(t, (_, response) => {
    asked++
    if (asked === 1) return void response.destroy()
    const window = { lines: ['a', 'b'], startOffset: 0, endOffset: 4, fileSize: 4 }
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(window))
  })
  const got: string[][] = []
  for await (const lines of api.lines('s 1', { from: 0, to: 4 }, { signal })) got.push(lines)
  t.same(got, [['a', 'b']])
  t.equal(asked, 2)
})

t.test('reading missed lines ends with its signal, also between two attempts', async t => {
  const leaving = new AbortController()
  const api = await apiOf(t, (_, response) => {
    response.destroy()
    setImmediate(() => leaving.abort(new Error('left')))
  })
  await t.rejects(api.lines('s 1', { from: 0, to: 4 }, { signal: leaving.signal }).next())
  t.ok(leaving.signal.aborted)
})
