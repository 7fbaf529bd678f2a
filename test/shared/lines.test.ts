import t from 'tap'
import { createLineReader } from '../../lib/shared/lines.js'
import { everyCut } from '../support/cuts.js'

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
