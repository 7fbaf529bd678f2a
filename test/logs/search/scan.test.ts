import t from 'tap'
import { compilePattern } from '../../../lib/logs/search/pattern.js'
import { createScanner } from '../../../lib/logs/search/scan.js'

/** Returns the matching lines, found in blocks. */
function found(lines: string[], q: string, { isRegex = true, ignoresCase = false, ends = '\n' } = {}): string[] {
  const bytes = Buffer.from(lines.map(line => line + ends).join(''))
  const hits: string[] = []
  createScanner(compilePattern({ q, isRegex, ignoresCase })).scan(bytes, (start, end, match) => {
    if (match < start || match > end) throw new Error(`The match at ${match} is not in its line`)
    hits.push(bytes.toString('utf8', start, end).replace(/\r$/, ''))
    return true
  })
  return hits
}

const lines = [
  '',
  'a',
  'error: one',
  '  indented',
  'Error: two',
  'trailing  ',
  'foo',
  'foo bar',
  'é',
  'aéc',
  'GRÖSSE',
  'größe',
  '日本語 error',
  '"open',
  'closed"',
  '"both"',
  'x=1',
  'x=22',
  'a.b',
  'a+b',
  '[x]',
  'tab\there',
  '😀',
  'foo.',
  '500 out',
  '\\',
  'K',
  'end'
]
const expressions = [
  'error',
  '^$',
  '^\\s',
  '\\s$',
  '\\s+',
  '[^a]',
  '[^x]*$',
  '"[^"]*"',
  'foo(?!\\s)',
  'foo(?!.)',
  '(?<=foo) bar',
  '\\bbar\\b',
  'a.c',
  '^.$',
  '^..$',
  'é',
  '[é]',
  '\\W',
  '\\D$',
  '[\\s\\S]{3,}',
  'a\\.b',
  'a\\+b',
  '\\[x\\]',
  'x=\\d\\d',
  'x=\\d{2,}',
  'fo*',
  'fo{2}',
  'errors?',
  '(error|end)',
  'error|end',
  '^(?:e|E)rror: \\w+$',
  '(o)\\1',
  '(?<c>o)\\k<c>',
  '\\t',
  '\\u0041',
  '\\x61',
  '[\\x00-\\x1f]',
  '\\p{L}',
  '^\\p{Lu}+$',
  '.*',
  'a*',
  '$',
  '^',
  '\\\\',
  '\\n',
  'a\\nb',
  '[\\n]',
  '😀',
  '^😀$',
  'error.*one',
  '.+ out',
  '5\\d\\d',
  'B*foo',
  ' *:'
]

t.test('finds in a block the lines that each would match alone', async t => {
  for (const ends of ['\n', '\r\n']) {
    for (const ignoresCase of [false, true]) {
      for (const q of expressions) {
        const { source, flags } = compilePattern({ q, isRegex: true, ignoresCase })
        const isUnicode = flags.includes('u')
        const alone = lines.filter(line => new RegExp(q, `${ignoresCase ? 'i' : ''}${isUnicode ? 'u' : ''}`).test(line))
        t.same(
          found(lines, q, { ignoresCase, ends }),
          alone,
          `/${q}/ ${ignoresCase} ${JSON.stringify(ends)} as ${source}`
        )
        // If the block is pure ASCII, the other code is used.
        const ascii = lines.filter(line => /^[\0-\x7f]*$/.test(line))
        t.same(
          found(ascii, q, { ignoresCase, ends }),
          alone.filter(line => ascii.includes(line)),
          `/${q}/ in ASCII`
        )
      }
    }
  }
})

t.test('finds plain texts', async t => {
  const cases: Array<[q: string, ignoresCase: boolean, hits: string[]]> = [
    ['error', false, ['error: one', '日本語 error']],
    ['ERROR', true, ['error: one', 'Error: two', '日本語 error']],
    ['größe', false, ['größe']],
    ['É', true, ['é', 'aéc']],
    ['a.b', false, ['a.b']],
    ['a+b', true, ['a+b']],
    ['\\', false, ['\\']],
    ['[x]', false, ['[x]']],
    ['日本', false, ['日本語 error']]
  ]
  for (const [q, ignoresCase, hits] of cases) t.same(found(lines, q, { isRegex: false, ignoresCase }), hits, q)
})

t.test('keeps positions correct in invalid UTF-8', async t => {
  const bytes = Buffer.concat([
    Buffer.from('é\n'),
    Buffer.alloc(30, 0xe4),
    Buffer.from('\nneedle 1\n'),
    Buffer.from([0xff]),
    Buffer.from(' needle 2')
  ])
  const hits: number[] = []
  createScanner(compilePattern({ q: 'n[e]+dle \\d', isRegex: true, ignoresCase: false })).scan(
    bytes,
    start => hits.push(start) > 0
  )
  t.same(hits, [bytes.indexOf('needle 1'), bytes.indexOf('needle 2') - 2])
})

t.test('does not find a text that is cut off by the end', async t => {
  for (const end of ['needle in', 'needle in a hays', 'x'])
    t.same(found(['one', end], 'needle in a haystack', { isRegex: false }), [], end)
  t.same(found(['needle in a haystack'], 'needle in a haystack', { isRegex: false, ends: '' }), [
    'needle in a haystack'
  ])
})

t.test('stops using a frequent text as a filter', async t => {
  const text = 'aaaa\n'.repeat(5000)
  const scanner = createScanner(compilePattern({ q: 'aa[ab]a$', isRegex: true, ignoresCase: false }))
  for (let round = 0; round < 2; round++) {
    let count = 0
    scanner.scan(Buffer.from(text), () => ++count > 0)
    t.equal(count, 5000)
  }
})
