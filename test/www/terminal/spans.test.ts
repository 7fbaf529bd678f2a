import t from 'tap'
import { createEmulator } from '../../../www/terminal/emulator.js'
import { lookOf, spansOf } from '../../../www/terminal/spans.js'

const e = '\x1b['

function spans(text: string): string[] {
  const emulator = createEmulator({ columns: 12, rows: 1 })
  emulator.write(text)
  return spansOf(emulator.line(0), emulator.textOf).map(({ text, columns, isWide, ...words }) => {
    const { classes, foreground, background } = lookOf(words)
    return [JSON.stringify(text), columns, isWide ? 'wide' : '', ...classes, foreground ?? '', background ?? '']
      .filter(word => word !== '')
      .join(' ')
  })
}

const cases: Array<[what: string, input: string, spans: string[]]> = [
  ['returns no spans for an empty line', '', []],
  ['removes blanks after plain text', 'abc', ['"abc" 12']],
  ['begins a span at each change of attributes', `a${e}1mb${e}0;31mc`, ['"a" 1', '"b" 1 bold', '"c" 1 1', '"" 9']],
  ['keeps coloured blanks', `${e}44m${e}K`, ['"            " 12 4']],
  [
    'gives wide and unusual characters their own spans',
    'a部b✓─',
    ['"a" 1', '"部" 2 wide', '"b" 1', '"✓" 1 wide', '"─" 7']
  ],
  [
    'converts colours of the cube and the greys',
    `${e}38;5;208ma${e}48;5;232mb`,
    ['"a" 1 #ff8700', '"b" 1 #ff8700 #080808', '"" 10']
  ],
  ['converts true colours', `${e}38;2;1;2;255ma`, ['"a" 1 #0102ff', '"" 11']],
  ['swaps inverse colours', `${e}7;31;42ma`, ['"a" 1 2 1', '"" 11']],
  ['names the style of an underline', `${e}4:3ma`, ['"a" 1 underline curly', '"" 11']]
]

for (const [what, input, expected] of cases) {
  t.test(what, async t =>
    t.same(
      spans(input),
      expected.filter(span => !span.startsWith('"" '))
    )
  )
}
