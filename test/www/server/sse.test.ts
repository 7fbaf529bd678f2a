import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { createEventReader, followEvents } from '../../../www/server/sse.js'
import type { ServerEvent } from '../../../www/server/sse.js'
import { everyCut } from '../cuts.js'

const message = (data: string, id = ''): ServerEvent => ({ event: 'message', data, id })

for (const { what, input, expected } of [
  {
    what: "the standard's first example (§9.2.6)",
    input: 'data: YHOO\ndata: +2\ndata: 10\n\n',
    expected: [message('YHOO\n+2\n10')]
  },
  {
    what: "the standard's second example: a comment, ids kept and cleared, a space that is data",
    input: ': test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n',
    expected: [message('first event', '1'), message('second event'), message(' third event')]
  },
  {
    what: "the standard's third example: empty data, two empty lines of data, an event that is not ended",
    input: 'data\n\ndata\ndata\n\ndata:',
    expected: [message(''), message('\n')]
  },
  {
    what: 'named events with every kind of line end',
    input: 'event: log\r\nid: 17\r\ndata: {"data":"é"}\r\n\r\nevent: status\rdata: x\r\r: \n',
    expected: [{ event: 'log', data: '{"data":"é"}', id: '17' }, { event: 'status', data: 'x', id: '17' }]
  },
  { what: 'an id with NUL is ignored', input: 'id: a\u0000b\ndata: x\n\n', expected: [message('x')] },
  { what: 'a name without data is no event', input: 'event: log\n\n:alive\n\ndata: x\n\n', expected: [message('x')] }
]) {
  t.test(`${what}, cut anywhere`, async t => {
    for (const { pieces, how } of everyCut(input)) {
      const events: ServerEvent[] = []
      const reader = createEventReader(event => void events.push(event))
      for (const piece of pieces) reader.push(piece)
      t.same(events, expected, how)
    }
  })
}

t.test('a stream whose connection breaks goes on behind the last event: nothing lost, nothing twice', async t => {
  const asked: string[] = []
  const server = createServer((request, response) => {
    const from = Number(request.headers['last-event-id'] ?? 0)
    asked.push(String(from))
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    for (let id = from + 1; id <= Math.min(from + 2, 5); id++) {
      response.write(`id: ${id}\nevent: log\ndata: line ${id}\n\n`)
    }
    if (from + 2 >= 5) response.end('event: status\ndata: success\n\n')
    // Half an event, then the end of the connection.
    else response.write(`id: ${from + 3}\nevent: log\ndata: li`, () => response.destroy())
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`

  const seen: string[] = []
  const states: string[] = []
  await followEvents({
    open: (lastId, signal) => fetch(url, { signal, headers: lastId === '' ? {} : { 'last-event-id': lastId } }),
    onEvent: ({ event, data }) => {
      seen.push(data)
      return event === 'status' ? 'last' : 'more'
    },
    onConnection: state => void states.push(state),
    isFinal: () => false,
    signal: new AbortController().signal
  })
  t.same(seen, ['line 1', 'line 2', 'line 3', 'line 4', 'line 5', 'success'])
  t.same(asked, ['0', '2', '4'])
  t.same(states, ['open', 'lost', 'open', 'lost', 'open'])
})

t.test('a final error ends the following, a signal ends it quietly', async t => {
  const refusal = new Error('404')
  const following = (open: () => Promise<Response>, signal: AbortSignal): Promise<void> =>
    followEvents({ open, onEvent: () => 'more', isFinal: error => error === refusal, signal })
  await t.rejects(following(() => Promise.reject(refusal), new AbortController().signal), refusal)

  const end = new AbortController()
  const done = following(() => Promise.reject(new Error('no network')), end.signal)
  setTimeout(() => end.abort(), 20)
  await t.resolves(done)
})
