import t from 'tap'
import { endOfSequences, visibleText } from '../../lib/shared/visible-text.js'

const table: ReadonlyArray<readonly [text: string, visible: string]> = [
  ['plain', 'plain'],
  ['\x1b[31merr\x1b[0mor', 'error'],
  ['\x1b[38;2;1;2;3m\x1b[1mx\x1b[m', 'x'],
  ['\x1b[2K\x1b[1Gx', 'x'],
  ['\x1b]8;;http://x/\x1b\\link\x1b]8;;\x07', 'link'],
  ['\x1b]0;title\x07x', 'x'],
  ['\x1bP1;2q\x1b\\x', 'x'],
  ['\x1b(Bx', 'x'],
  ['x\x1b[3', 'x'],
  ['x\x1b[3\ny', 'x\ny'],
  ['x\x1b]never ends\ny', 'x\ny'],
  ['x\x1b', 'x\x1b']
]

for (const [text, visible] of table) {
  t.test(`shows ${JSON.stringify(visible)} of ${JSON.stringify(text)}`, async t => {
    t.equal(visibleText(text), visible)
  })
}

t.test('finds the end of several sequences', async t => {
  t.equal(endOfSequences('a\x1b[1m\x1b[2mb', 1), 9)
  t.equal(endOfSequences('a\x1b[1m\x1b[2mb', 0), 0)
  t.equal(endOfSequences('\x1b', 0), 0)
})
