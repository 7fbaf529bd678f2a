import t from 'tap'
import { createNdjsonReader } from '../../../www/server/ndjson.js'
import { everyCut } from '../cuts.js'

t.test('one value a line, cut anywhere', async t => {
  const values = [{ event: 'log', data: 'héllo "wörld" \n 你' }, { event: 'status', status: 'success' }]
  const text = `${values.map(value => JSON.stringify(value)).join('\n\n')}\n`
  for (const { pieces, how } of everyCut(text)) {
    const read: unknown[] = []
    const reader = createNdjsonReader(value => void read.push(value))
    for (const piece of pieces) reader.push(piece)
    reader.end()
    t.same(read, values, how)
  }
})

t.test('a last line without an end is a value too', async t => {
  const read: unknown[] = []
  const reader = createNdjsonReader(value => void read.push(value))
  reader.push('{"a":1}')
  t.same(read, [])
  reader.end()
  t.same(read, [{ a: 1 }])
})

t.test('a broken line throws', async t => {
  t.throws(() => createNdjsonReader(() => {}).push('<html>\n'), { name: 'SyntaxError' })
})
