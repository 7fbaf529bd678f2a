import t from 'tap'
import { oneLine } from '../../lib/base/one-line.js'
import {
  flag,
  integer,
  line,
  list,
  multiline,
  name,
  nullable,
  oneOf,
  optional,
  queryChoice,
  queryLimit,
  queryOffset,
  queryPath,
  readFields,
  switchText
} from '../../lib/api/fields.js'

t.test('refuses a body that is not a JSON object', async t => {
  for (const body of [null, [], 'text', 7, true, undefined]) {
    t.throws(() => readFields(body, { name }), { kind: 'invalid', code: 'invalid_body' })
  }
})

t.test('reads fields and ignores unknown ones', async t => {
  const shape = {
    name,
    async: optional(flag),
    category: optional(nullable(line())),
    tags: optional(list(line(), { max: 2 }))
  }
  const cases: Array<[unknown, unknown]> = [
    [{ name: ' Shop ' }, { name: 'Shop', async: undefined, category: undefined, tags: undefined }],
    [
      { name: 'a', async: false, category: null, tags: [], more: 1 },
      { name: 'a', async: false, category: null, tags: [] }
    ],
    [JSON.parse('{"name": "a", "__proto__": {"async": true}}'), { name: 'a', async: undefined }]
  ]
  for (const [body, expected] of cases) t.match(readFields(body, shape), expected as object)
})

t.test('refuses an invalid value and names the field', async t => {
  const cases: Array<[Parameters<typeof readFields>[1], unknown, string, RegExp]> = [
    [{ name }, {}, 'name', /missing/],
    [{ name }, { name: '  ' }, 'name', /empty/],
    [{ name }, { name: 5 }, 'name', /a number: expected a string/],
    [{ name }, { name: null }, 'name', /null/],
    [{ name }, { name: 'a\0b' }, 'name', /NUL/],
    [{ name }, { name: 'x'.repeat(201) }, 'name', /too long: 201 characters, at most 200/],
    [{ token: line({ min: 8 }) }, { token: 'short' }, 'token', /at least 8/],
    [{ on: flag }, { on: 'true' }, 'on', /"true": expected true or false/],
    [{ on: flag }, {}, 'on', /missing/],
    [{ order: integer(0, 9) }, { order: 1.5 }, 'order', /whole number/],
    [{ order: integer(0, 9) }, { order: 10 }, 'order', /between 0 and 9/],
    [{ color: oneOf(['red', 'blue']) }, { color: 'green' }, 'color', /one of red, blue/],
    [{ color: oneOf(['red']) }, { color: {} }, 'color', /an object/],
    [{ ids: list(line(), { max: 2 }) }, { ids: 'a' }, 'ids', /a list/],
    [{ ids: list(line(), { max: 2 }) }, { ids: ['a', 'b', 'c'] }, 'ids', /3 items: at most 2/],
    [{ ids: list(line(), { min: 1, max: 2 }) }, { ids: [] }, 'ids', /at least 1/],
    [{ ids: list(line(), { max: 2 }) }, { ids: ['a', 7] }, 'ids[1]', /a number/],
    [{ at: nullable(line()) }, { at: 5 }, 'at', /a string/]
  ]
  for (const [shape, body, field, sentence] of cases) {
    t.throws(() => readFields(body, shape), { kind: 'invalid', code: 'invalid_field', field, message: sentence })
  }
})

t.test('query parameters', async t => {
  const query = new URLSearchParams('limit=7&big=9999&zero=0&word=x&status=failed&empty=')
  const limits = { fallback: 100, max: 500 }
  t.equal(queryLimit(query, 'limit', limits), 7)
  t.equal(queryLimit(query, 'big', limits), 500, 'a value above the maximum becomes the maximum')
  t.equal(queryLimit(query, 'absent', limits), 100)
  t.equal(queryLimit(query, 'empty', limits), 100)
  t.throws(() => queryLimit(query, 'zero', limits), { code: 'invalid_field', field: 'zero' })
  t.throws(() => queryLimit(query, 'word', limits), { code: 'invalid_field', field: 'word' })
  t.equal(queryChoice(query, 'status', ['failed', 'success']), 'failed')
  t.equal(queryChoice(query, 'empty', ['failed']), undefined)
  t.throws(() => queryChoice(query, 'word', ['failed']), { code: 'invalid_field', field: 'word' })
})

t.test('switches in text', async t => {
  for (const [given, meant] of [
    ['true', true],
    ['1', true],
    ['false', false],
    ['0', false],
    ['', undefined],
    [null, undefined]
  ]) {
    t.equal(switchText(given as string | null, 'postDeployAsync'), meant)
  }
  t.throws(() => switchText('yes', 'postDeployAsync'), { code: 'invalid_field', field: 'postDeployAsync' })
})

t.test('a line has no line break, a text may have many', async t => {
  t.equal(multiline()('a\n\tb', 'x'), 'a\n\tb')
  t.equal(line({ trim: true })(' Ünï 商店 😀\n', 'x'), 'Ünï 商店 😀')
  for (const bad of ['a\nb', 'a\tb', '\x1b[1m', '\u202e', '\ud800', '\u2028']) {
    t.throws(() => line()(bad, 'x'), { code: 'invalid_field', field: 'x', message: /U\+[0-9A-F]{4}/ }, oneLine(bad))
  }
  t.throws(() => multiline()('\0', 'x'), { code: 'invalid_field', field: 'x' })
})

t.test('bounds are inclusive', async t => {
  for (const order of [2, 9]) t.strictSame(readFields({ order }, { order: integer(2, 9) }), { order })
  t.throws(() => readFields({ order: 1 }, { order: integer(2, 9) }), {
    code: 'invalid_field',
    message: /between 2 and 9/
  })
})

t.test('a byte offset', async t => {
  const read = (text: string): number | undefined => queryOffset(new URLSearchParams(text), 'at')
  t.strictSame(['', 'at=', 'at=0', 'at=123456789012345'].map(read), [undefined, undefined, 0, 123456789012345])
  for (const text of ['at=-1', 'at=1.5', 'at=x', 'at=1234567890123456'])
    t.throws(() => read(text), { code: 'invalid_field', message: /expected a byte offset/ })
})

t.test('a path has no control characters', async t => {
  const read = (path: string): string | undefined => queryPath(new URLSearchParams({ path }), 'path')
  t.strictSame(['', 'a b/\u00e9'].map(read), [undefined, 'a b/\u00e9'])
  t.throws(() => read('a\nb'), { code: 'invalid_field', message: /must not contain control characters/ })
})
