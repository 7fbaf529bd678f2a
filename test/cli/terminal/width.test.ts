import t from 'tap'
import { cutToWidth, widthOf } from '../../../lib/cli/terminal/width.js'

const widths: Array<[text: string, columns: number]> = [
  ['', 0],
  ['plain', 5],
  ['\x1b[31mred\x1b[39m', 3],
  ['é', 1],
  ['e\u0301', 1],
  ['漢字', 4],
  ['ﾊﾝｶｸ', 4],
  ['한국', 4],
  ['🙂', 2],
  ['👨‍👩‍👧‍👦', 2],
  ['🇩🇪', 2],
  ['a\u200bb', 2],
  ['…', 1]
]
for (const [text, columns] of widths)
  t.test(`widthOf: ${JSON.stringify(text)} takes ${columns}`, async t => t.equal(widthOf(text), columns))

const cuts: Array<[text: string, columns: number, expected: string]> = [
  ['short', 5, 'short'],
  ['longer', 5, 'long…'],
  ['漢字漢字', 5, '漢字…'],
  ['漢字漢字', 4, '漢…'],
  ['👨‍👩‍👧‍👦👨‍👩‍👧‍👦', 3, '👨‍👩‍👧‍👦…'],
  ['abc', 1, '…']
]
for (const [text, columns, expected] of cuts) {
  t.test(`cutToWidth: ${text} to ${columns} is ${expected}`, async t => t.equal(cutToWidth(text, columns), expected))
}
