import t from 'tap'
import {
  jsonColumns,
  jsonSpans,
  parseAnsi,
  plainStyle,
  stripAnsi,
  type TextStyle
} from '../../../../www/elements/logs/log-format.js'

const shown = (text: string): string | undefined =>
  jsonSpans(jsonColumns(text))
    ?.map(span => span.text)
    .join('')

t.test('splits lines of common loggers into columns', async t => {
  for (const [line, expected] of [
    [
      '{"level":30,"time":1795262651123,"pid":7,"msg":"listening"}',
      '2026-11-21T12:04:11.123Z  INFO   listening  pid=7'
    ],
    [
      '{"level":"error","ts":1795262651.5,"msg":"x","error":"no such file"}',
      '2026-11-21T12:04:11.500Z  ERROR  x  error="no such file"'
    ],
    [
      '{"@timestamp":"2026-11-21T12:04:11Z","severity":"warning","message":"slow"}',
      '2026-11-21T12:04:11Z      WARNING  slow'
    ],
    ['{"msg":"two\\nlines","a":{"b":[1,null]}}', 'two lines  a={"b":[1,null]}'],
    ['{"msg":"\\u001b[31mred"}', 'red'],
    ['{}', '']
  ] as const) {
    t.equal(shown(line), expected, line)
  }
})

t.test('returns null for lines that are not JSON objects', async t => {
  for (const line of ['', 'plain', '{ broken', '[1]', '7', '"text"', 'null', '{"a":1} and more']) {
    t.equal(jsonColumns(line), null, line)
  }
})

t.test('gives levels their usual colours', async t => {
  const color = (level: string): unknown =>
    jsonSpans(jsonColumns(JSON.stringify({ level, msg: 'x' })))?.[0]?.style.foreground
  t.same(['error', 'FATAL', 'warn', 'debug', 'info'].map(color), [1, 1, 3, 8, 4])
})

t.test('treats names of Object.prototype as ordinary fields', async t => {
  t.equal(shown('{"constructor":1,"__proto__":2,"msg":"x"}'), 'x  constructor=1  __proto__=2')
})

t.test('shows only the names of the other fields if folded', async t => {
  const line = '{"level":30,"msg":"done","req":{"url":"/"},"pid":7}'
  t.equal(
    jsonSpans(jsonColumns(line), { isFolded: true })
      ?.map(span => span.text)
      .join(''),
    'INFO   done  {req, pid}'
  )
})

const e = '\x1b['
type Shown = Array<[text: string, style: Partial<Omit<TextStyle, 'href'>> & { href?: string }]>

const cases: Array<{ what: string; input: string; expected: Shown }> = [
  { what: 'plain text', input: 'plain', expected: [['plain', {}]] },
  { what: 'an empty line', input: '', expected: [] },
  {
    what: 'a colour and its end',
    input: `a${e}31mb${e}0m`,
    expected: [
      ['a', {}],
      ['b', { foreground: 1 }]
    ]
  },
  {
    what: 'a sequence without parameters resets the style',
    input: `${e}1mb${e}mc`,
    expected: [
      ['b', { isBold: true }],
      ['c', {}]
    ]
  },
  {
    what: 'several parameters',
    input: `${e}1;3;4;97;44mx`,
    expected: [['x', { isBold: true, isItalic: true, isUnderlined: true, foreground: 15, background: 4 }]]
  },
  { what: 'the end of each attribute', input: `${e}1;2;3;4;7;9m${e}22;23;24;27;29mx`, expected: [['x', {}]] },
  { what: 'default colours', input: `${e}31;41m${e}39;49mx`, expected: [['x', {}]] },
  { what: '256 colours: the palette', input: `${e}38;5;9mx`, expected: [['x', { foreground: 9 }]] },
  { what: '256 colours: the cube', input: `${e}38;5;208mx`, expected: [['x', { foreground: '#ff8700' }]] },
  { what: '256 colours: the greys', input: `${e}48;5;232mx`, expected: [['x', { background: '#080808' }]] },
  {
    what: 'true colour, then another',
    input: `${e}38;2;1;2;255;1mx`,
    expected: [['x', { foreground: '#0102ff', isBold: true }]]
  },
  {
    what: 'true colour with colons',
    input: `${e}38:2::1:2:3;4mx`,
    expected: [['x', { foreground: '#010203', isUnderlined: true }]]
  },
  {
    what: 'an invalid colour is ignored',
    input: `${e}38;5;999mx${e}38;2;1;2my`,
    expected: [
      ['x', {}],
      ['y', {}]
    ]
  },
  { what: 'underline style 0 ends the underline', input: `${e}4m${e}4:0mx`, expected: [['x', {}]] },
  {
    what: 'other sequences are removed',
    input: `a${e}2Kb${e}?25lc\x1b]0;title\x07d\x1b]8;;http://x\x1b\\e\x1b(Bf`,
    expected: [
      ['a', {}],
      ['b', {}],
      ['c', {}],
      ['d', {}],
      ['e', { href: 'http://x/' }],
      ['f', { href: 'http://x/' }]
    ]
  },
  {
    what: 'an http or https hyperlink with parameters ends at BEL or ST, not at a colour',
    input: `a\x1b]8;id=1;https://x.example/?q=1;2\x07b${e}31mc${e}0md\x1b]8;;\x1b\\e`,
    expected: [
      ['a', {}],
      ['b', { href: 'https://x.example/?q=1;2' }],
      ['c', { href: 'https://x.example/?q=1;2', foreground: 1 }],
      ['d', { href: 'https://x.example/?q=1;2' }],
      ['e', {}]
    ]
  },
  {
    what: 'other addresses do not become links',
    input: [
      'javascript:alert(1)',
      'file:///etc/passwd',
      'data:text/html,x',
      'https://',
      'https:x',
      `https://x/${'a'.repeat(3000)}`,
      'relative'
    ]
      .map(address => `\x1b]8;;${address}\x07x`)
      .join(''),
    expected: ['x', 'x', 'x', 'x', 'x', 'x', 'x'].map(text => [text, {}])
  },
  { what: 'a hyperlink cut by the end of the line', input: 'a\x1b]8;;https://x.exa', expected: [['a', {}]] },
  {
    what: 'private parameters are not colours',
    input: `${e}?31mx${e}>4;1my`,
    expected: [
      ['x', {}],
      ['y', {}]
    ]
  },
  { what: 'a sequence cut by the end of the line', input: `a${e}3`, expected: [['a', {}]] },
  {
    what: 'control characters are removed, a tab is kept',
    input: 'a\x00\x08b\tc\x7f',
    expected: [
      ['a', {}],
      ['b\tc', {}]
    ]
  },
  { what: 'a carriage return restarts the line', input: '10 %\r50 %\rdone', expected: [['done', {}]] },
  { what: 'a carriage return at the end does not restart it', input: 'done\r', expected: [['done', {}]] },
  {
    what: 'markup stays text',
    input: `<img src=x>${e}1m&amp;`,
    expected: [
      ['<img src=x>', {}],
      ['&amp;', { isBold: true }]
    ]
  }
]

for (const { what, input, expected } of cases) {
  t.test(what, async t => {
    const { spans } = parseAnsi(input, plainStyle)
    t.same(
      spans.map(({ text, style }) => ({ text, style: { ...style, href: style.href && String(style.href) } })),
      expected.map(([text, style]) => ({ text, style: { ...plainStyle, ...style } }))
    )
    t.equal(stripAnsi(input), expected.map(([text]) => text).join(''), 'stripped text')
  })
}

t.test('continues a style on the next line', async t => {
  const first = parseAnsi(`${e}32mgreen`, plainStyle)
  const second = parseAnsi(`still${e}0m not`, first.style)
  t.same(
    second.spans.map(({ text, style }) => [text, style.foreground]),
    [
      ['still', 2],
      [' not', null]
    ]
  )
  t.equal(second.style, plainStyle)
})

t.test('ends a hyperlink with its line', async t => {
  const first = parseAnsi(`${e}32m\x1b]8;;https://x.example/\x1b\\open`, plainStyle)
  t.equal(String(first.spans[0]?.style.href), 'https://x.example/')
  t.same(
    parseAnsi('next', first.style).spans.map(({ style }) => [style.href, style.foreground]),
    [[null, 2]]
  )
})

t.test('reads a megabyte of escape sequences without backtracking', async t => {
  // With backtracking this would exceed the timeout of the test.
  t.equal(parseAnsi(`${e}31mx`.repeat(150_000), plainStyle).style.foreground, 1)
  parseAnsi(`\x1b]${'a'.repeat(1_000_000)}`, plainStyle)
  parseAnsi(e.repeat(300_000), plainStyle)
})
