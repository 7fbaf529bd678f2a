import t from 'tap'
import { oneLine } from '../../lib/base/text.js'
import {
  checked,
  escapedLine,
  flag,
  instant,
  integer,
  line,
  list,
  mapped,
  multiline,
  name,
  nullable,
  object,
  oneOf,
  optional,
  readFields,
  readRights,
  record,
  withDefault
} from '../../lib/base/fields.js'

t.test('refuses a body that is not a JSON object', async t => {
  for (const body of [null, [], 'text', 7, true, undefined]) {
    t.throws(() => readFields(body, { name }), { kind: 'invalid', code: 'invalid_body' })
  }
})

t.test('refuses an unknown field without which the request would be carried out', async t => {
  const shape = { startAt: optional(line()), message: optional(line()) }
  for (const wish of ['dryRun', 'dry_run', 'dry-run', 'whatIf', 'checkOnly', 'at', 'At', 'schedule', 'scheduledFor']) {
    t.throws(() => readFields({ [wish]: 'x' }, shape), {
      field: wish,
      message: /is unknown here, .* nothing was changed$/
    })
    t.throws(() => readFields({ inner: { [wish]: 'x' } }, { inner: object(shape) }), { message: /nothing was changed/ })
  }
  for (const other of ['start_at', 'start-at', 'StartAt', 'startat', 'START_AT'])
    t.throws(() => readFields({ [other]: 'x' }, shape), { field: other, message: /The field is "startAt"$/ })
  for (const name of ['starts', 'atAll', 'messages', '__proto__', 'constructor'])
    t.strictSame(readFields({ [name]: 'x' }, shape), { startAt: undefined, message: undefined }, name)
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
    [{ name: 'Cafe\u0301' }, { name: 'Caf\u00e9' }],
    [JSON.parse('{"name": "a", "__proto__": {"async": true}}'), { name: 'a', async: undefined }]
  ]
  for (const [body, expected] of cases) t.match(readFields(body, shape), expected as object)
})

t.test('a body that gives rights has no unknown fields', async t => {
  const shape = { name, projectIds: optional(list(line(), { max: 2 })) }
  t.match(readRights({ name: 'ci', projectIds: ['a'] }, shape), { name: 'ci', projectIds: ['a'] })
  t.throws(() => readRights({ name: 'ci', projects: ['a'] }, shape), {
    code: 'invalid_field',
    field: 'projects',
    message: '"projects" is unknown: expected name, projectIds. Did you mean "projectIds"?'
  })
})

t.test('refuses an invalid value and names the field', async t => {
  const cases: Array<[Parameters<typeof readFields>[1], unknown, string, RegExp]> = [
    [{ name }, {}, 'name', /missing/],
    [{ name }, { name: '  ' }, 'name', /empty/],
    [{ name }, { name: 5 }, 'name', /a number: expected a string/],
    [{ name }, { name: null }, 'name', /null/],
    [{ name }, { name: 'a\0b' }, 'name', /NUL/],
    [{ name }, { name: 'sh\u200bop' }, 'name', /invisible character U\+200B/],
    [{ name }, { name: 'shop\u00ad' }, 'name', /U\+00AD/],
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

const gate = object({ after: list(line(), { max: 2 }), minutes: optional(integer(1, 60)) }, { strict: true })

t.test('reads nested objects and describes them', async t => {
  const policy = object({ prune: flag, gate: nullable(gate) })
  t.strictSame(policy({ prune: true, gate: { after: ['a'] }, more: 1 }, 'policy'), {
    prune: true,
    gate: { after: ['a'], minutes: undefined }
  })
  t.strictSame(policy({ prune: true }, 'policy'), { prune: true, gate: null })
  t.strictSame(gate.schema, {
    type: 'object',
    properties: {
      after: { type: 'array', items: { type: 'string', maxLength: 10_000 }, maxItems: 2 },
      minutes: { type: 'integer', minimum: 1, maximum: 60 }
    },
    required: ['after'],
    additionalProperties: false
  })
  t.strictSame(object({ a: optional(flag) }).schema, { type: 'object', properties: { a: { type: 'boolean' } } })
  const cases: Array<[given: unknown, field: string, message: RegExp]> = [
    [undefined, 'policy', /"policy" is missing: expected an object/],
    [[], 'policy', /a list: expected an object/],
    [{ prune: 1 }, 'policy.prune', /"policy.prune" is a number/],
    [{ prune: true, gate: 'a\nb' }, 'policy.gate', /is "a\\nb": expected an object/],
    [{ prune: true, gate: { after: ['a', 1] } }, 'policy.gate.after[1]', /a number/],
    [
      { prune: true, gate: { after: [], minute: 1 } },
      'policy.gate.minute',
      /is unknown: expected after, minutes. Did you mean "minutes"\?$/
    ],
    [{ prune: true, gate: { after: [], 'a\nb': 1 } }, 'policy.gate.a\\nb', /is unknown/],
    [{ prune: true, gate: JSON.parse('{"after": [], "__proto__": 1}') }, 'policy.gate.__proto__', /is unknown/],
    [{ prune: true, gate: { after: [], toString: 1 } }, 'policy.gate.toString', /is unknown/]
  ]
  for (const [given, field, message] of cases) {
    t.throws(() => policy(given, 'policy'), { code: 'invalid_field', field, message }, JSON.stringify(given))
  }
})

t.test('reads an object with any keys', async t => {
  const read = record(integer(0, 9), key => (/^[a-z]+$/.test(key) ? null : 'is not a word'))
  t.strictSame(read({ a: 1, b: 2 }, 'counts'), { a: 1, b: 2 })
  t.throws(() => read({ a: 1, 'B C': 2 }, 'counts'), { field: 'counts.B C', message: /"counts.B C" is not a word/ })
  t.throws(() => read({ a: 10 }, 'counts'), { field: 'counts.a', message: /between 0 and 9/ })
  t.throws(() => read([], 'counts'), { field: 'counts', message: /a list: expected an object/ })
})

t.test('a default replaces an absent value and null', async t => {
  const read = withDefault(flag, true)
  t.strictSame(
    [undefined, null, false].map(given => read(given, 'on')),
    [true, true, false]
  )
  t.throws(() => read(1, 'on'), { code: 'invalid_field', field: 'on' })
  t.equal(read.isOptional, true)
})

t.test('a check refuses a value with its reason', async t => {
  const read = checked(line(), given => (given === 'b' ? 'b is reserved' : null))
  t.equal(read('c', 'x'), 'c')
  t.throws(() => read('b', 'x'), { code: 'invalid_field', field: 'x', message: /^"x" is not valid: b is reserved$/ })
})

t.test('a change applies to the value that was read', async t => {
  const read = mapped(optional(line()), given => given?.length ?? 0)
  t.strictSame([read('abc', 'x'), read(undefined, 'x'), read.isOptional], [3, 0, true])
  t.equal(mapped(line(), given => given).isOptional, undefined)
})

t.test('an escaped line shows its line breaks', async t => {
  t.equal(escapedLine()('a\nb\u202e', 'x'), 'a\\nb\\u202e')
  t.throws(() => escapedLine({ max: 2 })('a\nb', 'x'), { message: /too long/ })
})

t.test('a time stays as it is written', async t => {
  t.equal(instant('2026-01-31T12:00:00.000Z', 'at'), '2026-01-31T12:00:00.000Z')
  for (const given of ['2026-01-31', '2026-99-31T12:00:00.000Z', 'soon', 5, null])
    t.throws(() => instant(given, 'at'), { code: 'invalid_field', field: 'at' }, String(given))
})
