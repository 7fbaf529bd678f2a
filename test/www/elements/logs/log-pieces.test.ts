import t from 'tap'
import { parseAnsi, plainStyle } from '../../../../www/elements/logs/ansi.js'
import { hitsIn, linksIn, piecesOf } from '../../../../www/elements/logs/log-pieces.js'

t.test('finds http and https links without the punctuation around them', async t => {
  for (const [text, expected] of [
    ['see http://a.example/b.', ['http://a.example/b']],
    ['(https://a.example/b_(c)) and <https://d.example>', ['https://a.example/b_(c)', 'https://d.example']],
    [
      '"https://a.example/?q=1&r=2#x", https://b.example:8080!',
      ['https://a.example/?q=1&r=2#x', 'https://b.example:8080']
    ],
    ['[x](https://a.example)', ['https://a.example']],
    ['javascript://a%0Aalert(1) ftp://x file:///etc/passwd data:text/html,x', []],
    ['https://', []],
    ['HTTPS://A.EXAMPLE/X', ['HTTPS://A.EXAMPLE/X']],
    ['http://a.example/<script>alert(1)</script>', ['http://a.example/']]
  ] as const) {
    t.same(
      linksIn(text).map(({ from, to }) => text.slice(from, to)),
      expected,
      text
    )
  }
})

t.test('finds the hits of a pattern', async t => {
  t.same(hitsIn('abcabc', /b./g), [
    { from: 1, to: 3 },
    { from: 4, to: 6 }
  ])
  t.same(hitsIn('abc', /x*/g), [], 'an empty match is not a hit')
  t.equal(hitsIn('a'.repeat(100_000), /a/g).length, 200)
})

t.test('splits pieces at colours, links and hits', async t => {
  const { spans } = parseAnsi('go \x1b[31mto http://a.ex\x1b[0mample/b now', plainStyle)
  const whole = spans.map(({ text }) => text).join('')
  const pieces = piecesOf(spans, linksIn(whole), hitsIn(whole, /example|go/g))
  t.same(
    pieces.map(({ text, style, href, isHit }) => [text, style.foreground, href && String(href), isHit]),
    [
      ['go', null, null, true],
      [' ', null, null, false],
      ['to ', 1, null, false],
      ['http://a.', 1, 'http://a.example/b', false],
      ['ex', 1, 'http://a.example/b', true],
      ['ample', null, 'http://a.example/b', true],
      ['/b', null, 'http://a.example/b', false],
      [' now', null, null, false]
    ]
  )
})
