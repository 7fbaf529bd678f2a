import t from 'tap'
import { widthOf } from '../../../www/terminal/width.js'

const cases: Array<[what: string, width: 0 | 1 | 2, characters: string]> = [
  ['letters, signs, line drawing', 1, 'aéßЖ☀✓€←─│█…'],
  ['Chinese, Japanese, Korean', 2, '部署あア한、（Ａ￥'],
  ['emoji that are pictures by themselves', 2, '🚀😀⌚✅🫠🀄'],
  ['letters of a flag by themselves', 1, '🇨'],
  ['halves of the width', 1, 'ｱﾊ'],
  ['combining marks', 0, '\u0301\u0308\u20dd\u0e31\u3099'],
  ['joiners and selectors', 0, '\u200b\u200d\ufe0f\ufe0e\u2060'],
  ['Hangul vowels and finals join', 0, '\u1161\u11a8'],
  ['the soft hyphen is seen', 1, '\u00ad'],
  ['rare characters of the second plane', 2, '𠀀𠮷'],
  ['variation selectors of the fifteenth', 0, '\u{e0100}']
]

for (const [what, width, characters] of cases) {
  t.test(what, async t => {
    for (const character of characters) {
      const code = character.codePointAt(0) as number
      t.equal(widthOf(code), width, `U+${code.toString(16)} ${character}`)
    }
  })
}
