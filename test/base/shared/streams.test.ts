import t from 'tap'
import { createEventReader, createLineReader, type ServerEvent } from '../../../lib/base/shared/streams.js'
import { everyCut } from '../../support/cuts.js'

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
    expected: [
      { event: 'log', data: '{"data":"é"}', id: '17' },
      { event: 'status', data: 'x', id: '17' }
    ]
  },
  { what: 'an id with NUL is ignored', input: 'id: a\u0000b\ndata: x\n\n', expected: [message('x')] },
  { what: 'a name without data is no event', input: 'event: log\n\n:alive\n\ndata: x\n\n', expected: [message('x')] }
]) {
  t.test(`${what}, cut anywhere`, async t => {
    for (const { pieces, how } of everyCut(input)) {
      const events: ServerEvent[] = []
      const reader = createEventReader({ onEvent: event => void events.push(event) })
      for (const piece of pieces) reader.push(piece)
      t.same(events, expected, how)
    }
  })
}

t.test('passes on comments, but not as events', async t => {
  const comments: string[] = []
  const reader = createEventReader({ onEvent: () => t.fail('no event'), onComment: text => void comments.push(text) })
  reader.push(': first\n\n:second\n\n')
  t.same(comments, [' first', 'second'])
})

t.test('cuts a line that is too long, and ignores the rest', async t => {
  const events: ServerEvent[] = []
  const reader = createEventReader({ onEvent: event => void events.push(event), maxLineLength: 10 })
  for (const piece of ['data: 12345', '6789', '\n\ndata: x\n\n']) reader.push(piece)
  t.same(events, [message('12345'), message('x')])
})

for (const { what, input, eventStream, expected } of [
  { what: 'lines end with \\n or \\r\\n', input: 'a\r\nb\n\nc\n', eventStream: false, expected: ['a', 'b', '', 'c'] },
  { what: 'the last line may lack its end', input: 'a\nb', eventStream: false, expected: ['a', 'b'] },
  { what: 'a lone \\r belongs to its line', input: 'a\rb\r\nc\r', eventStream: false, expected: ['a\rb', 'c\r'] },
  { what: 'in an event stream it ends the line', input: 'a\rb\r\nc\r', eventStream: true, expected: ['a', 'b', 'c'] },
  { what: 'longer characters', input: 'é\n你好\n👩\n', eventStream: false, expected: ['é', '你好', '👩'] },
  { what: 'nothing', input: '', eventStream: false, expected: [] }
]) {
  t.test(`${what}, cut anywhere`, async t => {
    for (const { pieces, how } of everyCut(input)) {
      const lines: string[] = []
      const reader = createLineReader(line => void lines.push(line), { isEventStream: eventStream })
      for (const piece of pieces) reader.push(piece)
      reader.end()
      t.same(lines, expected, how)
    }
  })
}
