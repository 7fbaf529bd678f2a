import t from 'tap'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  closest,
  countOf,
  grouped,
  createLineSplitter,
  decodeText,
  formatSeconds,
  hasControlCharacter,
  maxLineBytes,
  oneLine,
  parseHttpUrl,
  parseUrl,
  readText,
  tokenOf,
  unprintableIn,
  withoutMark,
  itemsOf
} from '../../lib/base/text.js'

t.test('decodes UTF-8, and refuses UTF-16 and other bytes', async t => {
  t.equal(withoutMark('\ufeffa\ufeff'), 'a\ufeff')
  t.equal(decodeText(Buffer.from('\ufeffä=1\n'), 'x'), 'ä=1\n')
  t.equal(decodeText(Buffer.alloc(0), 'x'), '')
  t.equal(decodeText(Buffer.from('a'), 'x'), 'a')
  const wide = Buffer.from('\ufeffA=1\n', 'utf16le')
  const message = 'Cannot read "x": it is UTF-16 text. Save it as UTF-8'
  for (const bytes of [wide, Buffer.from(wide).swap16(), wide.subarray(2), Buffer.from(wide.subarray(2)).swap16()])
    t.throws(() => decodeText(bytes, '"x"'), { code: 'not_utf8', message })
  t.throws(() => decodeText(Buffer.from('a\xe9b', 'latin1'), '"x"'), {
    code: 'not_utf8',
    message: 'Cannot read "x": it is not UTF-8 text. Save it as UTF-8'
  })
  t.equal(decodeText(Buffer.from('\ufffd'), 'x'), '\ufffd', 'the character itself is UTF-8')
  const directory = t.testdir({ plain: '\ufeffa' })
  writeFileSync(join(directory, 'wide'), wide)
  t.equal(await readText(join(directory, 'plain')), 'a')
  await t.rejects(readText(join(directory, 'none')), { code: 'ENOENT' })
  await t.rejects(readText(join(directory, 'wide')), { code: 'not_utf8' })
})

t.test('a token has no white space around it, and only what a header can carry', t => {
  for (const text of ['tok', 'tok\n', 'tok\r\n', ' tok\t', '\ufefftok'])
    t.equal(tokenOf(text, 'SVC_TOKEN'), 'tok', text)
  t.equal(tokenOf('\n', 'SVC_TOKEN'), '')
  const table: Array<[text: string, what: string]> = [
    ['to\nk', 'character 3 is U+000A'],
    ['to\ufeffk', 'character 3 is U+FEFF'],
    ['tok\u200b', 'character 4 is U+200B'],
    ['tok🚀', 'character 4 is U+1F680'],
    ['t\0ok', 'character 2 is U+0000']
  ]
  for (const [text, what] of table) {
    t.throws(() => tokenOf(text, 'SVC_TOKEN'), {
      code: 'invalid_field',
      message: `The token of SVC_TOKEN is not one: its ${what}. Copy it again`
    })
  }
  t.end()
})

const bad = [
  '\0',
  '\n',
  '\r',
  '\t',
  '\x1b',
  '\x7f',
  '\x85',
  '\x9b',
  '\u2028',
  '\u2029',
  '\u202e',
  '\u2066',
  '\u200f',
  '\u061c',
  '\ud800',
  '\udc00'
]

t.test('finds and escapes each character that forges, hides or reorders text', async t => {
  for (const character of bad) {
    const code = `U+${character.charCodeAt(0).toString(16).padStart(4, '0').toUpperCase()}`
    t.equal(unprintableIn(`a${character}b`), code)
    t.equal(unprintableIn(oneLine(`a${character}b${character}`)), null, code)
    t.equal(oneLine(oneLine(`a${character}b`)), oneLine(`a${character}b`))
  }
  t.equal(oneLine('a\nb\u202ec\ud800'), 'a\\nb\\u202ec\\ud800')
})

t.test('leaves other text unchanged', async t => {
  for (const text of ['', 'Shop', 'Ünïcödé 商店 עברית', '😀👩‍🚀', '\\n', 'a b', '\ufeffx', 'e\u0301']) {
    t.equal(unprintableIn(text), null)
    t.equal(oneLine(text), text)
  }
})

t.test('finds control characters, and no others', async t => {
  t.strictSame(['a\n', '\0', '\x1b', '\x7f', '\x85'].map(hasControlCharacter), [true, true, true, true, true])
  t.strictSame(['', 'a b', '\u200f', '\u2028', '\u00e9'].map(hasControlCharacter), [false, false, false, false, false])
})

/** Returns the lines for these pieces of input. */
function lines(pieces: Buffer[]): string[] {
  const out: string[] = []
  const splitter = createLineSplitter(line => out.push(line))
  for (const piece of pieces) splitter.push(piece)
  splitter.end()
  return out
}

const cases: Array<[what: string, input: Buffer, expected: string[]]> = [
  ['nothing', Buffer.from(''), []],
  ['one line', Buffer.from('a\n'), ['a']],
  ['no final newline', Buffer.from('a\nb'), ['a', 'b']],
  ['empty lines', Buffer.from('\n\na\n\n'), ['', '', 'a', '']],
  ['CR LF', Buffer.from('a\r\nb\r\n'), ['a', 'b']],
  ['a CR inside a line stays', Buffer.from('10%\r20%\n'), ['10%\r20%']],
  ['characters of two to four bytes', Buffer.from('é漢🙂\nü\n'), ['é漢🙂', 'ü']],
  ['invalid UTF-8', Buffer.from([0x61, 0xff, 0x0a]), ['a\ufffd']]
]

for (const [what, input, expected] of cases) {
  t.test(`createLineSplitter: ${what}, whole and cut at every byte`, async t => {
    t.same(lines([input]), expected, 'whole')
    for (let cut = 0; cut <= input.length; cut++) {
      t.same(lines([input.subarray(0, cut), input.subarray(cut)]), expected, `cut at ${cut}`)
    }
    t.same(lines(Array.from(input, byte => Buffer.from([byte]))), expected, 'one byte at a time')
  })
}

t.test('createLineSplitter passes on a line that is too long in pieces, without loss', async t => {
  const text = '漢'.repeat(maxLineBytes)
  for (const size of [7, 1000, 65_536, text.length * 3]) {
    const bytes = Buffer.from(`${text}\nnext\n`)
    const pieces: Buffer[] = []
    for (let at = 0; at < bytes.length; at += size) pieces.push(bytes.subarray(at, at + size))
    const out = lines(pieces)
    t.equal(out.pop(), 'next')
    t.ok(out.join('') === text, `in chunks of ${size}`)
    t.ok(
      out.every(line => Buffer.byteLength(line) <= maxLineBytes),
      'every piece is within the limit'
    )
  }
})

t.test('writes the noun in singular or plural', async t => {
  t.same(
    [0, 1, 2].map(number => countOf(number, 'error')),
    ['0 errors', '1 error', '2 errors']
  )
  t.same(
    [1, 2].map(number => countOf(number, 'entry', 'entries')),
    ['1 entry', '2 entries']
  )
})

for (const [ms, text] of [
  [0, '0.00s'],
  [4, '0.00s'],
  [1234, '1.23s'],
  [61_000, '61.00s'],
  [-5, '0.00s']
] as const) {
  t.test(`${ms} ms is ${text}`, async t => {
    t.equal(formatSeconds(ms), text)
  })
}

const known = ['serve', 'push', 'status', 'config', 'config:set', 'config:list', 'rollback', 'admin reset-password']
const casesForSuggest: Array<[word: string, meant: string | undefined]> = [
  ['pusj', 'push'],
  ['psuh', 'push'],
  ['PUSH', 'push'],
  ['statuss', 'status'],
  ['stauts', 'status'],
  ['config:st', 'config:set'],
  ['config-set', 'config:set'],
  ['rollbak', 'rollback'],
  ['roll', 'rollback'],
  ['admin reset-pasword', 'admin reset-password'],
  ['deploy', undefined],
  ['x', undefined],
  ['', undefined]
]

for (const [word, meant] of casesForSuggest) {
  t.test(`closest: "${word}" was ${meant === undefined ? 'nothing known' : `"${meant}"`}`, async t =>
    t.equal(closest(word, known), meant)
  )
}

t.test('returns a URL, or null', async t => {
  t.equal(parseUrl('https://a.example/b')?.pathname, '/b')
  for (const text of ['', 'a b', '//a', 'http://', 'https://[']) t.equal(parseUrl(text), null, text)
  t.equal(parseHttpUrl('https://a.test/x?key=1')?.href, 'https://a.test/x?key=1')
  for (const text of ['', 'a.test', 'ftp://a.test', 'file:///etc/passwd']) t.equal(parseHttpUrl(text), null, text)
})

t.test('commas, spaces and line ends separate the items of a list', async t => {
  t.same(itemsOf(' a, b\nc,,'), ['a', 'b', 'c'])
  t.same(itemsOf(' '), [])
})

t.test('whole numbers have commas', t => {
  t.strictSame([0, 999, 1000, 123456, 1234567].map(grouped), ['0', '999', '1,000', '123,456', '1,234,567'])
  t.end()
})
