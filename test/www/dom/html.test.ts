import t from 'tap'
import { parseMarkup, type Piece } from '../../../www/dom/html.js'

const pieces = (strings: TemplateStringsArray, ..._values: unknown[]): Piece[] => parseMarkup(strings)

t.test('parses constant text into elements, attributes and text', async t => {
  t.same(pieces`<p class="a b" hidden>one <b>two</b></p>`, [
    {
      kind: 'element',
      tag: 'p',
      attributes: [
        { name: 'class', parts: ['a b'] },
        { name: 'hidden', parts: [''] }
      ],
      children: [
        { kind: 'text', text: 'one ' },
        { kind: 'element', tag: 'b', attributes: [], children: [{ kind: 'text', text: 'two' }] }
      ]
    }
  ])
})

t.test('numbers the holes of values in children and attributes in their order', async t => {
  t.same(pieces`<a href="x/${0}?y=${1}" @click="${2}">${3} and ${4}</a>${5}`, [
    {
      kind: 'element',
      tag: 'a',
      attributes: [
        { name: 'href', parts: ['x/', 0, '?y=', 1] },
        { name: '@click', parts: [2] }
      ],
      children: [
        { kind: 'hole', index: 3 },
        { kind: 'text', text: ' and ' },
        { kind: 'hole', index: 4 }
      ]
    },
    { kind: 'hole', index: 5 }
  ])
})

t.test('drops indentation, and reduces it to one space beside a word', async t => {
  t.same(
    pieces`
    <p>
      Deployed
      ${0}
      again
    </p>
  `,
    [
      {
        kind: 'element',
        tag: 'p',
        attributes: [],
        children: [
          { kind: 'text', text: ' Deployed ' },
          { kind: 'hole', index: 0 },
          { kind: 'text', text: ' again ' }
        ]
      }
    ]
  )
})

t.test('gives void and self-closed elements no children', async t => {
  const found = pieces`<input name="a"><use href="#b"/><br>text`
  t.same(
    found.map(piece => (piece.kind === 'element' ? piece.tag : piece.kind)),
    ['input', 'use', 'br', 'text']
  )
})

t.test('never parses a value as markup', async t => {
  const strings = Object.assign(['<p title="', '">', '</p>'], { raw: [] }) as unknown as TemplateStringsArray
  t.same(parseMarkup(strings), [
    {
      kind: 'element',
      tag: 'p',
      attributes: [{ name: 'title', parts: [0] }],
      children: [{ kind: 'hole', index: 1 }]
    }
  ])
})

t.test('throws on a mistake and quotes the text around it', async t => {
  for (const [markup, sentence] of [
    ['<p>', '<p> is not closed'],
    ['<p></b>', '</b> closes nothing'],
    ['</p>', '</p> closes nothing'],
    ['<p class=a></p>', 'The value of class is not quoted'],
    ['<p class="a></p>', 'The value of class is not closed'],
    ['<p class="a"', '<p> is not closed'],
    ['< p></p>', 'A name is missing']
  ] as const) {
    t.throws(() => parseMarkup([markup]), { name: 'SyntaxError', message: new RegExp(`^${sentence} near `) }, markup)
  }
  t.throws(() => pieces`<p ${0}="a"></p>`, /cannot be named by a value near "<p \$\{\}/)
})
