import t from 'tap'
import { entryLine, entryStart, hashLength, leafStart, otherLine } from '../../lib/audit/export-format.js'
import { hashLeaf } from '../../lib/audit/tree.js'

t.test('lines are JSON, with the text of the entry unchanged', async t => {
  const [leaf, text] = [hashLeaf('x').toString('base64'), '{"seq":1,"id":"aud_a"}']
  t.equal(leaf.length, hashLength)
  const line = entryLine(leaf, text)
  t.equal(line, `${leafStart}${leaf}${entryStart}${text}}\n`)
  t.same(JSON.parse(line), { leaf, entry: { seq: 1, id: 'aud_a' } })
  t.same(JSON.parse(otherLine({ leaf, removed: 2 })), { leaf, removed: 2 })
})
