import t from 'tap'
import { createEmulator } from '../../../www/terminal/emulator.js'
import { findText } from '../../../www/terminal/find.js'
import { textIn } from '../../../www/terminal/selection.js'

const cases: Array<[what: string, written: string, wanted: string, hits: string[]]> = [
  ['each, oldest first', 'one two one', 'one', ['0:0 one', '0:8 one']],
  ['without regard to capitals', 'Error error', 'error', ['0:0 Error', '0:6 error']],
  ['with regard where some are asked for', 'Error error', 'Error', ['0:0 Error']],
  ['over the end of a wrapped line', 'abcdefghijkl', 'hijk', ['0:7 hijk']],
  ['not over a line end', 'abc\r\ndef', 'cd', []],
  ['behind wide characters', '部署done', 'done', ['0:4 done']],
  ['wide characters', 'x部署', '署', ['0:3 署']],
  ['at the last column', 'abcdefghij', 'j', ['0:9 j']],
  ['at the first column of a wrapped line', 'abcdefghijkl', 'k', ['1:0 k']],
  ['nothing is nowhere', 'abc', '', []],
  ['what grows in lower case', 'İx', 'x', ['0:1 x']]
]

for (const [what, written, wanted, hits] of cases) {
  t.test(what, async t => {
    const emulator = createEmulator({ columns: 10, rows: 4 })
    emulator.write(written)
    t.same(findText(emulator, wanted).map(hit => `${hit.from.line}:${hit.from.column} ${textIn(emulator, hit)}`), hits)
  })
}

t.test('the history, by the numbers of its lines', async t => {
  const emulator = createEmulator({ columns: 10, rows: 2, historyLines: 3 })
  emulator.write(Array.from({ length: 9 }, (_, line) => `line ${line}`).join('\r\n'))
  t.same(findText(emulator, 'line').map(({ from }) => from.line), [4, 5, 6, 7, 8])
})
