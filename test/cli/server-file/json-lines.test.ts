import t from 'tap'
import { jsonLines, lineOfPath } from '../../../lib/cli/server-file/json-lines.js'

t.test('each value of a JSON text has its line', async t => {
  const text = '{\n"a": {\n"b.c": [\n1,\n{"d": "x\\"}\\n["},\n[2,\n3]]},\n"e": {}, "f": []\n}'
  const lines = jsonLines(text, 'file')
  const expected = { a: 2, 'a.b.c': 3, 'a.b.c[0]': 4, 'a.b.c[1].d': 5, 'a.b.c[2]': 6, 'a.b.c[2][1]': 7, e: 8, f: 8 }
  for (const [path, line] of Object.entries(expected)) t.equal(lines.get(path), line, path)
  t.equal(lineOfPath(lines, 'a.b.c[1].missing[3].x'), 5, 'the nearest value around it')
  t.equal(lineOfPath(lines, 'missing'), 1)
})

t.test('a key that is given twice is refused', async t => {
  t.throws(() => jsonLines('{"a": {"b": 1},\n"c": [{"d": 1,\n"d": 2}]}', 'file'), {
    code: 'broken_config',
    message: '"file", line 3: "c[0].d" is given twice'
  })
  t.doesNotThrow(() => jsonLines('{"a": {"b": 1}, "c": {"b": 1}, "d": [{"b": 1}, {"b": 2}]}', 'file'))
})
