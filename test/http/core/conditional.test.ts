import t from 'tap'
import { expectedTags, wantedPart } from '../../../lib/http/core/conditional.js'

const file = { etag: '"abc"', modifiedMs: Date.parse('2026-01-02T03:04:05.678Z'), bytes: 100 }
const date = 'Fri, 02 Jan 2026 03:04:05 GMT'
const earlier = 'Fri, 02 Jan 2026 03:04:04 GMT'

const cases: Array<[headers: Record<string, string>, wanted: string]> = [
  [{}, 'all'],
  [{ 'if-none-match': '"abc"' }, 'unchanged'],
  [{ 'if-none-match': 'W/"abc"' }, 'unchanged'],
  [{ 'if-none-match': '"x", "abc"' }, 'unchanged'],
  [{ 'if-none-match': '*' }, 'unchanged'],
  [{ 'if-none-match': '"x"' }, 'all'],
  [{ 'if-none-match': '"x"', 'if-modified-since': date }, 'all'],
  [{ 'if-modified-since': date }, 'unchanged'],
  [{ 'if-modified-since': earlier }, 'all'],
  [{ 'if-modified-since': 'garbage' }, 'all'],
  [{ range: 'bytes=0-9' }, '0-9'],
  [{ range: 'bytes=90-' }, '90-99'],
  [{ range: 'bytes=-10' }, '90-99'],
  [{ range: 'bytes=-1000' }, '0-99'],
  [{ range: 'bytes=50-1000' }, '50-99'],
  [{ range: 'bytes=99-99' }, '99-99'],
  [{ range: 'bytes=100-' }, 'unsatisfiable'],
  [{ range: 'bytes=-0' }, 'unsatisfiable'],
  [{ range: 'bytes=9-1' }, 'all'],
  [{ range: 'bytes=-' }, 'all'],
  [{ range: 'bytes=0-1,5-6' }, 'all'],
  [{ range: 'lines=0-1' }, 'all'],
  [{ range: 'bytes=0-9', 'if-none-match': '"abc"' }, 'unchanged'],
  [{ range: 'bytes=0-9', 'if-range': '"abc"' }, '0-9'],
  [{ range: 'bytes=0-9', 'if-range': '"x"' }, 'all'],
  [{ range: 'bytes=0-9', 'if-range': 'W/"abc"' }, 'all'],
  [{ range: 'bytes=0-9', 'if-range': date }, '0-9'],
  [{ range: 'bytes=0-9', 'if-range': earlier }, 'all']
]

for (const [headers, expected] of cases) {
  t.test(JSON.stringify(headers), async t => {
    const wanted = wantedPart(headers, file)
    t.equal(wanted.outcome === 'part' ? `${wanted.from}-${wanted.to}` : wanted.outcome, expected)
  })
}

t.test('has no ranges in an empty file', async t => {
  t.equal(wantedPart({ range: 'bytes=0-' }, { ...file, bytes: 0 }).outcome, 'unsatisfiable')
})

t.test('reads the expected states from If-Match', async t => {
  for (const [given, expected] of [
    [undefined, undefined],
    ['*', undefined],
    ['"a"', ['a']],
    [' W/"a" , "b"', ['a', 'b']],
    ['a', ['a']],
    ['', ['']]
  ] as const) {
    t.same(expectedTags(given === undefined ? {} : { 'if-match': given }), expected, String(given))
  }
})
