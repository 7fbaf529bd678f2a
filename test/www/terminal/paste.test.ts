import t from 'tap'
import { bytesOfPaste } from '../../../www/terminal/paste.js'

const cases: Array<[what: string, text: string, bytes: string]> = [
  ['sends line ends as Enter', 'a\nb\r\nc\rd', 'a\rb\rc\rd'],
  ['keeps tabs', 'a\tb', 'a\tb'],
  ['removes escapes', 'a\x1b[201~rm -rf\x9b1mb', 'a[201~rm -rf1mb'],
  ['removes other control characters', 'a\x00\x03\x04\x08\x7f\x85b', 'ab'],
  ['keeps other text', '部署 🚀', '部署 🚀']
]

for (const [what, text, bytes] of cases) {
  t.test(what, async t => {
    t.equal(bytesOfPaste(text, { bracketedPaste: false }), bytes)
    t.equal(bytesOfPaste(text, { bracketedPaste: true }), `\x1b[200~${bytes}\x1b[201~`, 'bracketed')
  })
}
