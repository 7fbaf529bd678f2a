import t from 'tap'
import { createEmulator } from '../../../www/terminal/emulator.js'
import { findText } from '../../../www/terminal/find.js'
import { textIn } from '../../../www/terminal/selection.js'

const cases: Array<[what: string, written: string, wanted: string, hits: string[]]> = [
  ['finds all hits, oldest first', 'one two one', 'one', ['0:0 one', '0:8 one']],
  ['ignores case if the wanted text has no capitals', 'Error error', 'error', ['0:0 Error', '0:6 error']],
  ['matches case if the wanted text has capitals', 'Error error', 'Error', ['0:0 Error']],
  ['finds a text that spans wrapped lines', 'abcdefghijkl', 'hijk', ['0:7 hijk']],
  ['finds no text that spans a line end', 'abc\r\ndef', 'cd', []],
  ['finds a text after wide characters', '部署done', 'done', ['0:4 done']],
  ['finds wide characters', 'x部署', '署', ['0:3 署']],
  ['finds a text in the last column', 'abcdefghij', 'j', ['0:9 j']],
  ['finds a text in the first column of a continuation line', 'abcdefghijkl', 'k', ['1:0 k']],
  ['finds nothing for an empty text', 'abc', '', []],
  ['keeps positions if a letter grows in lower case', 'İx', 'x', ['0:1 x']]
]

for (const [what, written, wanted, hits] of cases) {
  t.test(what, async t => {
    const emulator = createEmulator({ columns: 10, rows: 4 })
    emulator.write(written)
    t.same(
      findText(emulator, wanted).map(hit => `${hit.from.line}:${hit.from.column} ${textIn(emulator, hit)}`),
      hits
    )
  })
}

t.test('finds texts in the history, by line number', async t => {
  const emulator = createEmulator({ columns: 10, rows: 2, historyLines: 3 })
  emulator.write(Array.from({ length: 9 }, (_, line) => `line ${line}`).join('\r\n'))
  t.same(
    findText(emulator, 'line').map(({ from }) => from.line),
    [4, 5, 6, 7, 8]
  )
})
