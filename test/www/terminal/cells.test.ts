import t from 'tap'
import { widthOf, lookOf, spansOf } from '../../../www/terminal/cells.js'
import { cellsOfEmulator } from '../../support/screen-cells.js'
import { createEmulator } from '../../../www/terminal/emulator.js'
import { cutsOf } from './screen-table.js'

const cases: Array<[what: string, width: 0 | 1 | 2, characters: string]> = [
  ['letters, signs and line drawing take one cell', 1, 'aéßЖ☀✓€←─│█…'],
  ['Chinese, Japanese and Korean take two cells', 2, '部署あア한、（Ａ￥'],
  ['emoji with a picture of their own take two cells', 2, '🚀😀⌚✅🫠🀄'],
  ['a single letter of a flag takes one cell', 1, '🇨'],
  ['half-width characters take one cell', 1, 'ｱﾊ'],
  ['combining marks take no cell', 0, '\u0301\u0308\u20dd\u0e31\u3099'],
  ['joiners and selectors take no cell', 0, '\u200b\u200d\ufe0f\ufe0e\u2060'],
  ['Hangul vowels and finals take no cell', 0, '\u1161\u11a8'],
  ['the soft hyphen takes one cell', 1, '\u00ad'],
  ['rare characters of the second plane take two cells', 2, '𠀀𠮷'],
  ['variation selectors of plane 14 take no cell', 0, '\u{e0100}']
]

for (const [what, width, characters] of cases) {
  t.test(what, async t => {
    for (const character of characters) {
      const code = character.codePointAt(0) as number
      t.equal(widthOf(code), width, `U+${code.toString(16)} ${character}`)
    }
  })
}

const e = '\x1b['

/** The attributes of the cells that contain the text `x`. */
const renditions: Array<[what: string, input: string, look: string]> = [
  ['no attributes by default', 'x', ''],
  [
    'sets each attribute',
    `${e}1mx${e}0;2mx${e}0;3mx${e}0;5mx${e}0;7mx${e}0;8mx${e}0;9mx`,
    'bold|dim|italic|blinking|inverse|hidden|struck'
  ],
  ['sets several attributes at once', `${e}1;2;3;5;7;8;9mx`, 'bold dim italic blinking inverse hidden struck'],
  ['resets each attribute', `${e}1;2;3;4;5;7;8;9m${e}22;23;24;25;27;28;29mx`, ''],
  ['resets all attributes without a parameter', `${e}1;31;42m${e}mx`, ''],
  ['resets all attributes for an empty parameter', `${e}1m${e};3mx`, 'italic'],
  [
    'sets the styles of underlines',
    `${e}4mx${e}21mx${e}4:3mx${e}4:4mx${e}4:5mx${e}4:0mx`,
    'underline 1|underline 2|underline 3|underline 4|underline 5|'
  ],
  ['sets colours of the palette', `${e}31;42mx${e}97;100mx`, 'text 1 ground 2|text 15 ground 8'],
  ['sets default colours', `${e}31;42m${e}39mx${e}49mx`, 'ground 2|'],
  ['sets 256 colours', `${e}38;5;208;48;5;0mx`, 'text 208 ground 0'],
  ['sets 256 colours with colons', `${e}38:5:208;48:5:7mx`, 'text 208 ground 7'],
  ['sets true colours', `${e}38;2;1;2;3;48;2;255;254;253mx`, 'text 1,2,3 ground 255,254,253'],
  ['sets true colours with colons and a colour space', `${e}38:2::1:2:3;1mx`, 'bold text 1,2,3'],
  ['sets true colours with colons and no colour space', `${e}48:2:1:2:3;1mx`, 'bold ground 1,2,3'],
  ['applies a parameter after a colour', `${e}38;5;1;1mx`, 'bold text 1'],
  ['ignores an invalid colour', `${e}38;5;256mx${e}38;2;1;2mx${e}38;2;1;2;300mx`, '||'],
  ['ignores the colour of an underline', `${e}58;5;9;1mx${e}0;58:2::1:2:3;3mx`, 'bold|italic'],
  ['ignores other functions that end with m', `${e}>4;1mx${e}?1mx`, '|'],
  ['ignores unknown codes', `${e}6;99;1mx`, 'bold blinking'],
  ['DECSC saves the attributes', `${e}1m\x1b7${e}m\x1b8${e}1mx`, 'bold']
]

for (const [what, input, look] of renditions) {
  t.test(what, async t => {
    for (const { how, pieces } of cutsOf(input)) {
      const emulator = createEmulator({ columns: 10, rows: 2 })
      for (const piece of pieces) emulator.write(piece)
      const looks = (cellsOfEmulator(emulator)[0] ?? []).filter(({ text }) => text === 'x').map(({ style }) => style)
      t.equal(looks.join('|'), look, how)
    }
  })
}

t.test('erased cells have the background of the pen and no other attribute', async t => {
  for (const erase of ['2J', 'K', '8X', '8@', '8P']) {
    const emulator = createEmulator({ columns: 8, rows: 1 })
    emulator.write(`abcdefgh${e}H${e}1;4;7;31;42m${e}${erase}`)
    t.same(
      cellsOfEmulator(emulator)[0]?.map(({ text, style }) => text + style),
      Array(8).fill('ground 2'),
      erase
    )
  }
  const emulator = createEmulator({ columns: 2, rows: 2 })
  emulator.write(`${e}44ma\r\nb\r\nc`)
  t.same(
    cellsOfEmulator(emulator)[1]?.map(({ style }) => style),
    ['ground 4', 'ground 4'],
    'a line added by scrolling'
  )
})

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

const runs: Array<[what: string, input: string, spans: string[]]> = [
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

for (const [what, input, expected] of runs) {
  t.test(what, async t =>
    t.same(
      spans(input),
      expected.filter(span => !span.startsWith('"" '))
    )
  )
}
