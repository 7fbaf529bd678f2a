import t from 'tap'
import { decodePath } from '../../lib/install/journal-file.js'
import { formatLine, parseLine, type JournalLine } from '../../lib/install/journal-line.js'

const lines: Array<[JournalLine, string]> = [
  [{ kind: 'D', path: 'a b' }, 'D a b'],
  [{ kind: 'd', path: 'a/b' }, 'd a/b'],
  [{ kind: 'n', path: 'a/%' }, 'n a/%25'],
  [{ kind: 'N', path: 'a\nready' }, 'N a%0Aready'],
  [{ kind: 'R', path: 'a b', aside: 12 }, 'R 12 a b'],
  [{ kind: 'T', path: 'a b', fromMs: 1.5, toMs: 2000 }, 'T 1.5 2000 a b'],
  [{ kind: 'X', path: 'a b', aside: 7 }, 'X 7 a b'],
  [{ kind: 'x', path: 'a b', mode: 0o2755 }, 'x 2755 a b']
]

t.test('writes a line and reads it back', async t => {
  for (const [line, text] of lines) {
    t.equal(formatLine(line), `${text}\n`)
    t.strictSame(parseLine(text, decodePath), line)
  }
})

t.test('reads unencoded paths of older versions', async t => {
  t.strictSame(
    parseLine('n a%25', path => path),
    { kind: 'n', path: 'a%25' }
  )
})
