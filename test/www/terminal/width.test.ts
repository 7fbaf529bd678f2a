import t from 'tap'
import { widthOf } from '../../../www/terminal/width.js'

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
