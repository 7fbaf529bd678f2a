import t from 'tap'
import { splitList } from '../../../lib/cli/terminal/lists.js'

const cases: Array<[text: string, items: string[]]> = [
  ['', []],
  ['*.map', ['*.map']],
  ['*.map,docs/**', ['*.map', 'docs/**']],
  [' *.map , , docs ', ['*.map', 'docs']],
  ['*.{map,txt},docs', ['*.{map,txt}', 'docs']],
  ['{a,{b,c}},d', ['{a,{b,c}}', 'd']],
  ['a\\,b,c', ['a\\,b', 'c']],
  ['\\{a,b\\}', ['\\{a', 'b\\}']],
  ['a},b', ['a}', 'b']]
]
for (const [text, items] of cases) t.test(`splitList: ${text}`, async t => t.same(splitList(text), items))
