import t from 'tap'
import { compilePattern } from '../../../../lib/operate/logs/search/pattern.js'
import { createNeedle, createScanner, visibleScanner } from '../../../../lib/operate/logs/search/scan.js'
import { createRandom } from '../../../support/random.js'
import { repetitions } from '../../../support/thorough.js'

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

t.test('finds the text at every position, for every sample', async t => {
  const pieces = ['a', 'A', 'b', 'B', 'ab', 'k', 'K', '.', ' ', '50', 'É', '失', '败', '\u212a', 'timed out']
  let ignoring = 0
  let foundCount = 0
  for (let seed = 1; seed <= repetitions(300, 3000); seed++) {
    const random = createRandom(seed)
    const ignoresCase = random.below(2) === 0
    const known = ignoresCase ? pieces.filter(piece => !/[É\u212a]/.test(piece)) : pieces
    const text = [random.oneOf(known), ...random.some(4, () => random.oneOf(known))].join('')
    const sample = Buffer.from(random.some(40, () => random.oneOf([...pieces, 'x'.repeat(5_000)])).join(''))
    const block = Buffer.from(random.some(80, () => random.oneOf(random.below(2) === 0 ? pieces : [text])).join(''))
    const needle = createNeedle(text, ignoresCase, sample)
    if (needle === null) continue
    if (ignoresCase) ignoring++
    // Latin1, so that positions are those of bytes; there too only ASCII has two cases.
    const plain = (buffer: Buffer): string =>
      ignoresCase
        ? buffer.toString('latin1').replace(/[A-Z]+/g, letters => letters.toLowerCase())
        : buffer.toString('latin1')
    const find = needle.finder(block)
    for (let from = 0; from < block.length; ) {
      const found = find(from)
      const expected = plain(block).indexOf(plain(Buffer.from(text)), from)
      if (found !== expected)
        t.equal(
          found,
          expected,
          `seed ${seed}: ${JSON.stringify(text)} from ${from} of ${JSON.stringify(block.toString())}`
        )
      if (expected === -1) break
      foundCount++
      from = expected + 1 + random.below(3)
    }
  }
  t.ok(ignoring > 100, `${ignoring} times, case was ignored`)
  t.ok(foundCount > 3000, `${foundCount} places`)
})

t.test('returns null for a frequent text without regard to case, because expressions are faster', async t => {
  t.equal(createNeedle('ab', true, Buffer.from('ab'.repeat(10_000))), null)
  t.not(createNeedle('ab', true, Buffer.from('xy'.repeat(10_000))), null)
  t.not(createNeedle('ab', false, Buffer.from('ab'.repeat(10_000))), null)
})

const red = '\x1b[31m'
const off = '\x1b[0m'

interface Case {
  text: string
  q: string
  isRegex?: boolean
  /** The lines that are found. */
  lines: string[]
  /** The text of the file from the match on. */
  from?: string[]
}

const cases: Case[] = [
  { text: 'plain error\n', q: 'error', lines: ['plain error'], from: ['error'] },
  { text: `${red}err${off}or two\n`, q: 'error', lines: [`${red}err${off}or two`], from: [`err${off}or two`] },
  { text: `${red}info${off}: user\n`, q: '^info: user$', isRegex: true, lines: [`${red}info${off}: user`] },
  { text: `one${off}\n${red}two\n`, q: 'two', lines: [`${red}two`], from: ['two'] },
  { text: `one${off}\n${red}two${off}\nthree\n`, q: 'three', lines: ['three'], from: ['three'] },
  { text: `${red}one${off}\n`, q: '31m', lines: [] },
  { text: `${red}ä€${off}ü\n`, q: '€ü', lines: [`${red}ä€${off}ü`] },
  {
    text: `\x1b]8;;http://x/\x1b\\link\x1b]8;;\x07 text\n`,
    q: 'link text',
    lines: [`\x1b]8;;http://x/\x1b\\link\x1b]8;;\x07 text`]
  },
  { text: `cut \x1b[3\nnext\n`, q: 'next', lines: ['next'] },
  { text: `title \x1b]0;never ends\nnext line\n`, q: 'line', lines: ['next line'], from: ['line'] },
  { text: `${red}${off}${red}x${off}${off}`, q: '^x$', isRegex: true, lines: [`${red}${off}${red}x${off}${off}`] },
  { text: '\x1bé one\n', q: 'one', lines: ['\x1bé one'] },
  { text: `${red}\n${off}\n`, q: '^$', isRegex: true, lines: [red, off] }
]

for (const { text, q, isRegex = false, lines, from } of cases) {
  t.test(`"${q}" in ${JSON.stringify(text)}`, async t => {
    const bytes = Buffer.from(text)
    const scanner = visibleScanner(createScanner(compilePattern({ q, isRegex, ignoresCase: false })))
    const found: Array<[line: string, from: string]> = []
    scanner.scan(bytes, (start, end, at) => {
      found.push([bytes.toString('utf8', start, end), bytes.toString('utf8', at, end)])
      return true
    })
    t.same(
      found.map(([line]) => line),
      lines
    )
    if (from !== undefined)
      t.same(
        found.map(([, rest]) => rest),
        from
      )
  })
}

t.test('finds in a coloured log what it finds in the same log without colours', async t => {
  let seed = 5
  const random = (below: number): number => (seed = (seed * 48271) % 2147483647) % below
  const words = ['info', 'error', ' ', ': ', 'user', '\n', 'ü']
  for (let round = 0; round < 50; round++) {
    const pieces = Array.from({ length: 200 }, () => words[random(words.length)] as string)
    const coloured = pieces.map(word => `${random(3) === 0 ? `\x1b[${random(99)}m` : ''}${word}`).join('')
    const numbersOf = (text: string, isVisible: boolean): number[] => {
      const bytes = Buffer.from(text)
      const plain = createScanner(compilePattern({ q: 'error(: )?user$', isRegex: true, ignoresCase: false }))
      const numbers: number[] = []
      ;(isVisible ? visibleScanner(plain) : plain).scan(bytes, start => {
        numbers.push(bytes.toString('latin1', 0, start).split('\n').length)
        return true
      })
      return numbers
    }
    t.same(numbersOf(coloured, true), numbersOf(pieces.join(''), false))
  }
})
