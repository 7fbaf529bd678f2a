import t from 'tap'
import { findTime } from '../../../www/state/time-search.js'

/** A file in memory, read as the server reads one: windows of whole lines. */
function fileOf(lines: string[]) {
  const text = lines.map(line => `${line}\n`).join('')
  let reads = 0
  return {
    text,
    reads: () => reads,
    search: (atMs: number) =>
      findTime({
        sizeBytes: text.length,
        atMs,
        timeOf: line => (/^\d+/.test(line) ? Number.parseInt(line, 10) : null),
        read: async offset => {
          reads++
          const startOffset = offset === 0 ? 0 : text.lastIndexOf('\n', offset - 1) + 1
          const cut = text.lastIndexOf('\n', startOffset + 8000)
          const endOffset = Math.max(cut, text.indexOf('\n', startOffset)) + 1
          return { startOffset, endOffset, lines: text.slice(startOffset, endOffset).split('\n').slice(0, -1) }
        }
      })
  }
}

async function lineAt(file: ReturnType<typeof fileOf>, atMs: number): Promise<string | null> {
  const found = await file.search(atMs)
  return found === null ? null : (file.text.slice(found.offset).split('\n')[found.line] ?? null)
}

t.test('finds the first line at or after a time in a large file with few reads', async t => {
  const file = fileOf(Array.from({ length: 50_000 }, (_, index) => `${String(index * 10).padStart(8, '0')} some words`))
  for (const [atMs, expected] of [
    [-1, '00000000'],
    [0, '00000000'],
    [5, '00000010'],
    [123_450, '00123450'],
    [499_990, '00499990']
  ] as const) {
    t.equal((await lineAt(file, atMs))?.slice(0, 8), expected, String(atMs))
  }
  t.equal(await lineAt(file, 499_991), null, 'nothing was written then')
  t.ok(file.reads() < 120, `${file.reads()} reads for six searches`)
})

t.test('skips lines without a time', async t => {
  const file = fileOf(
    Array.from({ length: 40_000 }, (_, index) => (index % 50 === 0 ? `${index} begins` : '    at some.frame()'))
  )
  t.equal(await lineAt(file, 20_001), '20050 begins')
  t.equal(await lineAt(fileOf(['no time', 'at all']), 1), null)
  t.equal(await lineAt(fileOf([]), 1), null)
})

t.test('returns the first of several lines with the same time', async t => {
  const file = fileOf(Array.from({ length: 30_000 }, (_, index) => `${Math.floor(index / 10_000)} line ${index}`))
  t.equal(await lineAt(file, 1), '1 line 10000')
  t.equal(await lineAt(file, 2), '2 line 20000')
})

t.test('handles a line that is longer than a window', async t => {
  const file = fileOf([
    ...Array.from({ length: 9000 }, (_, index) => `${index} a`),
    `9000 ${'x'.repeat(300_000)}`,
    '9001 b'
  ])
  t.equal(await lineAt(file, 9001), '9001 b')
})
