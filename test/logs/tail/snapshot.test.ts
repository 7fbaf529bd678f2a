import { writeFileSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { rangeOfHead, rangeOfTail } from '../../../lib/logs/tail/snapshot.js'

const kilobyte = 1024

async function ranges(t: Test, text: string | Buffer, maxLines: number) {
  const path = join(t.testdir({}), 'app.log')
  writeFileSync(path, text)
  const handle = await open(path)
  t.teardown(() => handle.close())
  const size = Buffer.byteLength(text)
  const shown = ({ start, end }: { start: number; end: number }): string =>
    Buffer.from(text).subarray(start, end).toString()
  const query = { handle, size, maxLines }
  const [head, tail] = [await rangeOfHead(query), await rangeOfTail(query)]
  return { head, tail, headText: shown(head), tailText: shown(tail), size }
}

const long = `${'x'.repeat(100 * kilobyte)}\n`
const cases: Array<[what: string, text: string, maxLines: number, head: string, tail: string]> = [
  ['an empty file', '', 5, '', ''],
  ['fewer lines than asked for', 'one\ntwo\n', 5, 'one\ntwo\n', 'one\ntwo\n'],
  ['as many lines as asked for', 'one\ntwo\n', 2, 'one\ntwo\n', 'one\ntwo\n'],
  ['more lines', 'one\ntwo\nthree\n', 2, 'one\ntwo\n', 'two\nthree\n'],
  ['an incomplete last line', 'one\ntwo\nthr', 2, 'one\ntwo\n', 'two\nthr'],
  ['no lines', 'one\ntwo\n', 0, 'one\n', ''],
  ['lines of more than a block', long + long + long, 2, long + long, long + long],
  ['empty lines', '\n\n\n\n', 2, '\n\n', '\n\n']
]

for (const [what, text, maxLines, head, tail] of cases) {
  t.test(`finds the first and the last lines: ${what}`, async t => {
    const found = await ranges(t, text, maxLines)
    t.ok(found.headText === head)
    t.ok(found.tailText === tail)
  })
}

t.test('begins with a whole line within 2 MiB of the end, or with a character', async t => {
  const lines = await ranges(t, long.repeat(30), 1000)
  t.equal(lines.tail.start % long.length, 0)
  t.ok(lines.size - lines.tail.start <= 2048 * kilobyte)
  t.ok(lines.size - lines.tail.start > 1900 * kilobyte)
  const endless = await ranges(t, '€'.repeat(1000 * kilobyte), 1000)
  t.equal(endless.tail.start % 3, 0)
  t.ok(endless.tail.start > 0)
})

t.test('shows nothing of a binary file, and recognizes a file by the bytes before the range', async t => {
  const binary = await ranges(t, `${'\x01\x02\x03'.repeat(50)}\n`, 10)
  t.match(binary.tail, { isBinary: true, start: 151, end: 151 })
  t.equal(binary.tail.mark.length, 151)
  const { tail } = await ranges(t, 'one\ntwo\nthree\n', 1)
  t.equal(tail.mark.toString(), 'one\ntwo\n')
})
