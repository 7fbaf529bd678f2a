import type * as http from 'node:http'
import t, { type Test } from 'tap'
import { createLogApi, type LogApi, type LogEvent } from '../../../lib/cli/log/log-api.js'
import { clientOf } from '../../support/client-of.js'

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
