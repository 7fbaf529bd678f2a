import t from 'tap'
import { parseJsonObject } from '../../lib/config/json.js'
import { configSays } from '../support/sentences/config.js'

t.test('refuses a broken file with path, line and column', t => {
  const table: Array<[text: string, sentence: string]> = [
    ['{\n  "a": 1,\n}', configSays.unreadable('f.json') + configSays.notJson(3, 1, '"}"')],
    ['{"a" 1}', configSays.notJson(1, 6, '"1"')],
    ['{"a": tru}', configSays.notJson(1, 7, '"tru"')],
    ['{"a": 1', configSays.notJson(1, 8, configSays.endOfFile)],
    ['{"a": "x\ny"}', configSays.notJson(1, 7, '"""')],
    ['{a: 1}', configSays.notJson(1, 2, '"a"')],
    ["{'a': 1}", configSays.notJson(1, 2, '"\'"')],
    ['{"a": [1, 2,]}', configSays.notJson(1, 13, '"]"')],
    ['{"a": [1 2]}', configSays.notJson(1, 10, '"2"')],
    ['{"a": {}} x', configSays.notJson(1, 11, '"x"')],
    ['{"a": 01}', configSays.notJson(1, 8, '"1"')],
    ['// c\n{}', configSays.notJson(1, 1, '"/"')],
    ['{"a": "\\x"}', configSays.notJson(1, 7, '"""')],
    ['{"a": 1]', configSays.notJson(1, 8, '"]"')],
    ['{"a": [}', configSays.notJson(1, 8, '"}"')],
    ['[]', configSays.notAnObject],
    ['null', configSays.notAnObject],
    ['"x"', configSays.notAnObject],
    [`{"a":[${'[],'.repeat(1_500_000)}[]]}`, configSays.tooLong(4_194_304)]
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

t.test('reads an empty file as an empty object, and skips a byte order mark', t => {
  t.strictSame(parseJsonObject('', 'f'), {})
  t.strictSame(parseJsonObject(' \n', 'f'), {})
  t.strictSame(parseJsonObject('\ufeff{"a":[1,{"b":null}]}', 'f'), { a: [1, { b: null }] })
  t.end()
})
