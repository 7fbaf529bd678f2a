import t from 'tap'
import { JsonFault, strictJson } from '../../lib/base/json.js'
import { configSays } from '../support/sentences/config.js'

function faultOf(text: string | Uint8Array, limits = {}): JsonFault | null {
  try {
    strictJson(text, limits)
    return null
  } catch (error) {
    if (error instanceof JsonFault) return error
    throw error
  }
}

t.test('a key that an object has twice is refused', async t => {
  for (const [text, key, line, field] of [
    ['{"a":1,"a":2}', 'a', 1, 'a'],
    ['{"a":1,\n"b":{"c":[1,{"d":1,\n"d":2}]}}', 'd', 3, 'b.c[1].d'],
    ['{"a":1,"\\u0061":2}', 'a', 1, 'a'],
    ['[{"a":1},{"":1,"":2}]', '', 1, '[1].'],
    ['{"a":"x","b\\"":1,"b\\"":2}', 'b"', 1, 'b"'],
    ['{"__proto__":1,"__proto__":2}', '__proto__', 1, '__proto__']
  ] as const) {
    JSON.parse(text)
    t.match(faultOf(text), { kind: 'key', field }, text)
    const shown = JSON.stringify(key).slice(1, -1)
    t.match(faultOf(text)?.message, configSays.keyTwice(shown, line))
  }
})

t.test('half of a surrogate pair is refused, in a key and in a value', async t => {
  for (const [text, written, line, field] of [
    ['"\\ud83d"', '\\ud83d', 1, undefined],
    ['{"a":\n["x\\uDE00y"]}', '\\uDE00', 2, 'a[0]'],
    ['{"a":[{"b":"x","c":["x"]},{"b":[1,"\\udead"]}]}', '\\udead', 1, 'a[1].b[1]'],
    ['{"a":{"b":1},"c":"\\udead"}', '\\udead', 1, 'c'],
    ['{"\\ud83d":1}', '\\ud83d', 1, undefined],
    ['{"a":{"b":1,"\\ud83d":1}}', '\\ud83d', 1, 'a'],
    ['"\\ude00\\ud83d"', '\\ude00 … \\ud83d', 1, undefined]
  ] as const) {
    JSON.parse(text)
    t.match(faultOf(text), { kind: 'half', message: configSays.halfCharacter(written, line) }, text)
    t.equal(faultOf(text)?.field, field, text)
  }
  t.equal(strictJson('"\\ud83d\\ude00"'), '😀')
  t.equal(strictJson('"😀\\\\ud83d"'), '😀\\ud83d', 'a backslash before the letters is no escape')
})

t.test('keys of different objects, and values that look like keys, are read', async t => {
  for (const text of [
    '{"a":{"a":1},"b":[{"a":1},{"a":1}]}',
    '{"a":"a","b":"a"}',
    '["a","a"]',
    '{"a":"{\\"b\\":1,","b":"\\\\"}',
    '1',
    '"x"',
    '{}'
  ])
    t.strictSame(strictJson(text), JSON.parse(text), text)
})

t.test('a text that is nested too deeply is refused, if there is a limit', async t => {
  const text = '['.repeat(20) + ']'.repeat(20)
  t.equal(faultOf(text, { maxDepth: 20 }), null)
  t.match(faultOf(text, { maxDepth: 19 }), { kind: 'deep' })
  t.equal(faultOf(text), null)
})

t.test('bytes are UTF-8, with a mark only where it is taken', async t => {
  const marked = Buffer.from('\ufeff{"a":"ü"}')
  t.strictSame(strictJson(marked), { a: 'ü' })
  t.match(faultOf(marked, { takesMark: false }), { kind: 'syntax' })
  t.match(faultOf(Buffer.from([0x22, 0xff, 0x22])), { kind: 'syntax', message: 'it is not valid JSON' })
  t.match(faultOf('{"a":'), { kind: 'syntax', message: 'it is not valid JSON' })
})
