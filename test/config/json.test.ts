import t from 'tap'
import { parseJsonObject } from '../../lib/config/json.js'

t.test('a broken file is refused by name, line and column', t => {
  const table: Array<[text: string, sentence: string]> = [
    ['{\n  "a": 1,\n}', 'f.json could not be read: line 3, column 1: "}" is not JSON there'],
    ['{"a" 1}', 'line 1, column 6: "1" is not JSON there'],
    ['{"a": tru}', 'line 1, column 7: "tru" is not JSON there'],
    ['{"a": 1', 'line 1, column 8: the end of the file is not JSON there'],
    ['{"a": "x\ny"}', 'line 1, column 7: """ is not JSON there'],
    ['{a: 1}', 'line 1, column 2: "a" is not JSON there'],
    ["{'a': 1}", 'line 1, column 2: "\'" is not JSON there'],
    ['{"a": [1, 2,]}', 'line 1, column 13: "]" is not JSON there'],
    ['{"a": [1 2]}', 'line 1, column 10: "2" is not JSON there'],
    ['{"a": {}} x', 'line 1, column 11: "x" is not JSON there'],
    ['{"a": 01}', 'line 1, column 8: "1" is not JSON there'],
    ['// c\n{}', 'line 1, column 1: "/" is not JSON there'],
    ['{"a": "\\x"}', 'line 1, column 7: """ is not JSON there'],
    ['{"a": 1]', 'line 1, column 8: "]" is not JSON there'],
    ['{"a": [}', 'line 1, column 8: "}" is not JSON there'],
    ['[]', 'it must hold a JSON object'],
    ['null', 'it must hold a JSON object'],
    ['"x"', 'it must hold a JSON object'],
    [`{"a":[${'[],'.repeat(1_500_000)}[]]}`, 'it is longer than 4194304 characters']
  ]
  for (const [text, sentence] of table) {
    t.throws(() => parseJsonObject(text, 'f.json'), { code: 'broken_config' }, text.slice(0, 40))
    try {
      parseJsonObject(text, 'f.json')
    } catch (error) {
      t.match((error as Error).message, sentence, text.slice(0, 40))
    }
  }
  t.end()
})

t.test('what is JSON is read: an empty file is an empty object, a byte order mark is skipped', t => {
  t.strictSame(parseJsonObject('', 'f'), {})
  t.strictSame(parseJsonObject(' \n', 'f'), {})
  t.strictSame(parseJsonObject('\ufeff{"a":[1,{"b":null}]}', 'f'), { a: [1, { b: null }] })
  t.end()
})
