import t from 'tap'
import { doubledKeyIn, keyFaultOf } from '../../lib/base/json.js'

t.test('a key that an object has twice is found', async t => {
  for (const [text, key, line] of [
    ['{"a":1,"a":2}', 'a', 1],
    ['{"a":1,\n"b":{"c":[1,{"d":1,\n"d":2}]}}', 'd', 3],
    ['{"a":1,"\\u0061":2}', 'a', 1],
    ['[{"a":1},{"":1,"":2}]', '', 1],
    ['{"a":"x","b\\"":1,"b\\"":2}', 'b"', 1],
    ['{"__proto__":1,"__proto__":2}', '__proto__', 1]
  ] as const) {
    JSON.parse(text)
    t.strictSame(doubledKeyIn(text), { key, line }, text)
    t.match(keyFaultOf(text), JSON.stringify(key))
  }
})

t.test('keys of different objects, and values that look like keys, are not', async t => {
  for (const text of [
    '{"a":{"a":1},"b":[{"a":1},{"a":1}]}',
    '{"a":"a","b":"a"}',
    '["a","a"]',
    '{"a":"{\\"b\\":1,","b":"\\\\"}',
    '1',
    '"x"',
    '{}'
  ]) {
    JSON.parse(text)
    t.equal(doubledKeyIn(text), null, text)
    t.equal(keyFaultOf(text), null)
  }
})

t.test('a text that is nested too deeply is named, if there is a limit', async t => {
  const text = '['.repeat(20) + ']'.repeat(20)
  t.equal(doubledKeyIn(text, 20), null)
  t.equal(doubledKeyIn(text, 19), 'deep')
  t.equal(doubledKeyIn(text), null)
})
