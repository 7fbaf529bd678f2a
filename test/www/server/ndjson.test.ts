import t from 'tap'
import { createNdjsonReader } from '../../../www/server/ndjson.js'
import { everyCut } from '../../support/cuts.js'

t.test('reads one value per line, cut anywhere', async t => {
  const values = [
    { event: 'log', data: 'héllo "wörld" \n 你' },
    { event: 'status', status: 'success' }
  ]
  const text = `${values.map(value => JSON.stringify(value)).join('\n\n')}\n`
  for (const { pieces, how } of everyCut(text)) {
    const read: unknown[] = []
    const reader = createNdjsonReader(value => void read.push(value))
    for (const piece of pieces) reader.push(piece)
    reader.end()
    t.same(read, values, how)
  }
})

t.test('reads a last line without a newline', async t => {
  const read: unknown[] = []
  const reader = createNdjsonReader(value => void read.push(value))
  reader.push('{"a":1}')
  t.same(read, [])
  reader.end()
  t.same(read, [{ a: 1 }])
})

t.test('throws for a broken line', async t => {
  t.throws(() => createNdjsonReader(() => {}).push('<html>\n'), { name: 'SyntaxError' })
})
