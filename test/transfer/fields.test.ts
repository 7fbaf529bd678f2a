import t from 'tap'
import { idPattern, idWanted, readerOf, type FieldReader } from '../../lib/transfer/fields.js'

const long = 'x'.repeat(1024 * 1024)

/** A way to read field `a`, its value, and the expected result or the reason of the refusal. */
const cases: Array<[what: string, read: (record: FieldReader) => unknown, given: unknown, expected: unknown]> = [
  ['text', r => r.text('a'), 'b', 'b'],
  ['text', r => r.text('a'), 1, /a string is needed/],
  ['text', r => r.text('a'), undefined, /a string is needed/],
  ['text with a fallback', r => r.text('a', { fallback: 'c' }), undefined, 'c'],
  ['text with a fallback', r => r.text('a', { fallback: 'c' }), 'b', 'b'],
  ['text as long as it may be', r => r.text('a').length, long, long.length],
  ['text that is too long', r => r.text('a'), `${long}x`, /too long or contains a NUL/],
  ['text with a NUL', r => r.text('a'), 'b\0', /too long or contains a NUL/],
  ['id', r => r.text('a', { pattern: idPattern, wanted: idWanted }), 'b/c', /an id of letters/],
  ['one line, refused', r => r.text('a', { oneLine: 'refuse' }), 'b\nc', /one line of visible characters/],
  ['one line, refused', r => r.text('a', { oneLine: 'refuse' }), 'b c', 'b c'],
  ['one line, escaped', r => r.text('a', { oneLine: 'escape' }), 'b\nc', 'b\\nc'],
  ['several lines', r => r.text('a'), 'b\nc', 'b\nc'],
  [
    'a fault of the caller',
    r => r.text('a', { faultOf: text => (text === 'b' ? 'no b is wanted' : null) }),
    'b',
    /no b is wanted/
  ],
  ['a fault of the caller', r => r.text('a', { faultOf: text => (text === 'b' ? 'no b is wanted' : null) }), 'c', 'c'],
  ['text or null', r => r.nullableText('a'), null, null],
  ['text or null', r => r.nullableText('a'), undefined, null],
  ['text or null', r => r.nullableText('a'), 'b', 'b'],
  ['flag', r => r.flag('a', true), undefined, true],
  ['flag', r => r.flag('a', true), false, false],
  ['flag', r => r.flag('a', true), 0, /true or false/],
  ['flag or null', r => r.nullableFlag('a'), null, null],
  ['flag or null', r => r.nullableFlag('a'), true, true],
  ['integer', r => r.integer('a', 3), undefined, 3],
  ['integer', r => r.integer('a', 3), 0, 0],
  ['integer', r => r.integer('a', 3), 1.5, /whole number/],
  ['integer or null', r => r.nullableInteger('a'), null, null],
  ['integer or null', r => r.nullableInteger('a'), -5, -5],
  ['integer in a range', r => r.nullableInteger('a', { min: 1, max: 2 }), 1, 1],
  ['integer in a range', r => r.nullableInteger('a', { min: 1, max: 2 }), 2, 2],
  ['integer in a range', r => r.nullableInteger('a', { min: 1, max: 2 }), 0, /from 1 to 2/],
  ['integer in a range', r => r.nullableInteger('a', { min: 1, max: 2 }), 3, /from 1 to 2/],
  ['choice', r => r.choice('a', ['b', 'c']), 'c', 'c'],
  ['choice', r => r.choice('a', ['b', 'c']), 'd', /one of b, c is needed/],
  ['choice with a fallback', r => r.choice('a', ['b', 'c'], 'b'), undefined, 'b'],
  ['time', r => r.time('a'), '2026-01-31T12:00:00.000Z', '2026-01-31T12:00:00.000Z'],
  ['time', r => r.time('a', '2026-01-31T12:00:00.000Z'), undefined, '2026-01-31T12:00:00.000Z'],
  ['time', r => r.time('a'), '2026-01-31', /a time/],
  ['time', r => r.time('a'), '2026-99-31T12:00:00.000Z', /a time/],
  ['time or null', r => r.nullableTime('a'), null, null],
  ['time or null', r => r.nullableTime('a'), 'soon', /a time/],
  ['texts', r => r.texts('a'), undefined, []],
  ['texts', r => r.texts('a'), ['b', 'c'], ['b', 'c']],
  ['texts', r => r.texts('a'), 'b', /a list of at most/],
  ['texts', r => r.texts('a').length, Array(10_000).fill(''), 10_000],
  ['texts', r => r.texts('a'), Array(10_001).fill(''), /a list of at most/],
  ['list', r => r.list('a', item => item.text('b')), [{ b: 'c' }], ['c']],
  ['has', r => r.has('a'), null, true],
  ['has', r => r.has('a'), undefined, false],
  ['has, inherited property', r => r.has('toString'), undefined, false]
]

for (const [what, read, given, expected] of cases) {
  t.test(`${what}: ${JSON.stringify(given)?.slice(0, 40)}`, async t => {
    const reading = (): unknown => read(readerOf(given === undefined ? {} : { a: given }, 'x.json[0]'))
    if (!(expected instanceof RegExp)) t.strictSame(reading(), expected)
    else t.throws(reading, { kind: 'invalid', field: /^x\.json\[0\]\.a/, message: expected })
  })
}

t.test('names the place of a nested field', async t => {
  const record = readerOf({ a: [{ b: 'c' }, { b: 1 }], d: ['e', 2] }, 'x.json[0]')
  t.throws(() => record.list('a', item => item.text('b')), { code: 'invalid_field', field: 'x.json[0].a[1].b' })
  t.throws(() => record.texts('d'), { code: 'invalid_field', field: 'x.json[0].d[1]' })
  t.match(record.refusal('a', 'why'), { field: 'x.json[0].a', message: /: why$/ })
  for (const none of [null, [], 'text', 1])
    t.throws(() => readerOf(none, 'x.json[0]'), { field: 'x.json[0]', message: /an object is needed/ })
})
