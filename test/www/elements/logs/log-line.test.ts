import t from 'tap'
import { parseAnsi, plainStyle, plainFormat } from '../../../../www/elements/logs/log-format.js'
import { hitsIn, linksIn, piecesOf, cellsOf, createLogIndex } from '../../../../www/elements/logs/log-line.js'
import type { LogLine, LogText } from '../../../../www/state/held-lines.js'

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

t.test('counts the cells of characters', async t => {
  for (const [text, cells] of [
    ['', 0],
    ['abc', 3],
    ['é', 1],
    ['e\u0301', 1],
    ['你好', 4],
    ['한', 2],
    ['🚀', 2],
    ['\tx', 9],
    ['abc\tx', 9],
    ['─│', 2]
  ] as const) {
    t.equal(cellsOf(text), cells, JSON.stringify(text))
  }
})

/** A log whose lines the test adds and removes. */
function textOf(lines: string[], firstNumber = 0, epoch = 0): LogText {
  return Object.assign(new EventTarget(), {
    lines: lines.map((text): LogLine => ({ at: '', text })),
    firstNumber,
    epoch,
    arrivedLines: 0,
    isAtEnd: true,
    head: 'start' as const,
    seek: async () => null
  })
}

const letters = (...counts: number[]): string[] => counts.map(count => 'x'.repeat(count))

t.test('gives each line one row without wrapping', async t => {
  const index = createLogIndex(plainFormat)
  t.equal(index.read(textOf(letters(0, 500, 3)), Infinity), 'whole')
  t.equal(index.rows, 3)
  t.same([0, 1, 2].map(index.lineAt), [0, 1, 2])
})

t.test('gives wrapped lines the rows that their cells need', async t => {
  const index = createLogIndex(plainFormat)
  index.wrapAt(10)
  index.read(textOf(letters(0, 10, 11, 35)), Infinity)
  t.equal(index.rows, 1 + 1 + 2 + 4)
  t.same([0, 1, 2, 3, 4].map(index.rowOf), [0, 1, 2, 4, 8])
  t.same([0, 1, 2, 3, 4, 5, 6, 7, 8, 100].map(index.lineAt), [0, 1, 2, 2, 3, 3, 3, 3, 3, 3])
  index.wrapAt(null)
  t.equal(index.rows, 4)
})

t.test('has no rows for an empty log', async t => {
  const index = createLogIndex(plainFormat)
  index.read(textOf([]), Infinity)
  t.equal(index.rows, 0)
  t.equal(index.lineAt(0), 0)
})

t.test('removes the rows of lines dropped at the start and keeps the numbers of the others', async t => {
  const index = createLogIndex(plainFormat)
  index.wrapAt(10)
  index.read(textOf(letters(5, 25, 15, 5)), Infinity)
  const { revision } = index
  index.read(textOf(letters(15, 5, 12), 2), Infinity)
  t.not(index.revision, revision)
  t.equal(index.firstNumber, 2)
  t.equal(index.rows, 2 + 1 + 2)
  t.same([2, 3, 4].map(index.rowOf), [0, 2, 3])
  t.same([0, 1, 2, 3, 4].map(index.lineAt), [2, 2, 3, 4, 4])
})

t.test('gives lines loaded before the first lower numbers, and drops lines at the end', async t => {
  const index = createLogIndex(plainFormat)
  index.wrapAt(10)
  index.read(textOf(letters(5, 25)), Infinity)
  index.read(textOf(letters(11, 5, 5, 25), -2), Infinity)
  t.equal(index.firstNumber, -2)
  t.same([-2, -1, 0, 1].map(index.rowOf), [0, 2, 3, 4])
  index.read(textOf(letters(11, 5, 5), -2), Infinity)
  t.equal(index.lines, 3)
  t.equal(index.rows, 4)
})

t.test('starts over with another epoch or with unrelated lines', async t => {
  const index = createLogIndex(plainFormat)
  index.read(textOf(letters(1, 1, 1)), Infinity)
  index.read(textOf(letters(1), 0, 1), Infinity)
  t.equal(index.lines, 1)
  index.read(textOf(letters(1, 1), 500, 1), Infinity)
  t.equal(index.firstNumber, 500)
  t.equal(index.lines, 2)
})

t.test('gives an unfolded line more rows', async t => {
  const index = createLogIndex(plainFormat)
  index.read(textOf(letters(1, 1, 1)), Infinity)
  index.unfold(1, 4)
  t.same([0, 1, 2].map(index.rowOf), [0, 1, 6])
  index.unfold(1, 0)
  t.equal(index.rows, 3)
})

t.test('continues at the next call after its time limit', async t => {
  const index = createLogIndex(plainFormat)
  const text = textOf(letters(...Array.from({ length: 3000 }, () => 3)))
  let reads = 1
  while (index.read(text, -1) === 'part') reads++
  t.ok(reads > 1, `${reads} times`)
  t.equal(index.rows, 3000)
})

t.test('begins a line in the colours of the lines before it', async t => {
  const index = createLogIndex(plainFormat)
  const lines = ['plain', '\x1b[31mred', 'still red', '\x1b[0mplain again', 'plain']
  index.read(textOf(lines), Infinity)
  t.same(
    [0, 1, 2, 3, 4].map(line => index.styleOf(line).foreground),
    [null, null, 1, 1, null]
  )
  index.read(textOf(lines.slice(2), 2), Infinity)
  t.equal(index.styleOf(2).foreground, 1, '… even if those were dropped')
  index.read(textOf(['\x1b[32mgreen', 'green', ...lines.slice(2)], 0), Infinity)
  t.same(
    [0, 1, 2].map(line => index.styleOf(line).foreground),
    [null, 2, 1]
  )
})
